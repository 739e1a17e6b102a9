#include <array>
#include <limits>
#include <utility>

#include "base/try.h"
#include "base/uuid.h"
#include "store/letter_rules.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/letters/dead_letters.h"
#include "store/postgres/letters/letter_rows.h"
#include "store/postgres/letters/statements.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::postgres {
namespace {

/// Before the first there can be.
constexpr std::int64_t kFromTheBeginning = std::numeric_limits<std::int64_t>::min();  // -infinity
constexpr std::string_view kLowestId = "00000000-0000-0000-0000-000000000000";

}  // namespace

Result<std::optional<Letter>> PostgresDeadLetters::mark_dead(std::string_view id, std::string_view actor) {
    return change_by_hand(id, actor, letters::sql::mark_dead);
}

Result<std::optional<Letter>> PostgresDeadLetters::revive(std::string_view id, std::string_view actor) {
    return change_by_hand(id, actor, letters::sql::revive);
}

Result<std::optional<Letter>> PostgresDeadLetters::change_by_hand(std::string_view id, std::string_view actor,
                                                                  std::string_view change) {
    TRY(check_upkeep_name("actor", actor));
    const std::string uuid = canonical_uuid(id);
    if (uuid.empty()) return std::nullopt;
    const Params which(std::optional{uuid});
    const Params params(std::optional{uuid}, actor);
    TRY_ASSIGN(auto connection, pool_.borrow());
    // The lock first and by itself: the change then begins with what is in the row.
    const std::array steps = {Step{&sql_[letters::sql::lock_letter], &which}, Step{&sql_[change], &params}};
    TRY_ASSIGN(auto results, connection->run(steps, Effect::write, connection->statement_deadline()));
    const PGresult* before = results.front().get();
    if (PQntuples(before) == 0) return std::nullopt;
    return letter_at(before, 0);
}

Result<Removal> PostgresDeadLetters::remove(std::string_view id, std::string_view actor) {
    TRY(check_upkeep_name("actor", actor));
    const std::string uuid = canonical_uuid(id);
    if (uuid.empty()) return Removal::unknown;
    TRY_ASSIGN(auto result,
               run_once(pool_, sql_[letters::sql::remove_letter], Params(std::optional{uuid}, actor), Effect::write));
    if (int64_at(result.get(), 0, 1) == 1) return Removal::removed;
    return int64_at(result.get(), 0, 0) == 1 ? Removal::under_way : Removal::unknown;
}

PostgresDeadLetters::PurgePosition PostgresDeadLetters::start_of(const std::optional<PurgePosition>& before,
                                                                 Duration age) {
    return before && before->age == age ? *before : PurgePosition{age, kFromTheBeginning, std::string(kLowestId)};
}

Result<std::int64_t> PostgresDeadLetters::purge(LetterStatus status, Duration age, std::int32_t limit,
                                                std::string_view actor) {
    TRY(check_upkeep_span("age", age));
    TRY(check_upkeep_limit(limit));
    TRY(check_upkeep_name("actor", actor));
    const auto index = static_cast<std::size_t>(status);
    std::optional<PurgePosition> reached;
    {
        const MutexLock lock(mutex_);
        reached = start_of(purged_.at(index), age);
    }
    std::int64_t gone = 0;
    while (reached && gone < limit) {
        const Params params(to_string(status), to_seconds(age), static_cast<std::int32_t>(limit - gone), reached->to,
                            std::optional{reached->id}, actor, kMaxLookedAt);
        auto result = run_once(pool_, sql_[letters::sql::purge_letters], params, Effect::write);
        if (!result) {
            if (gone == 0) return Failure(std::move(result.error()));
            break;  // what is deleted is reported, and the next call meets the fault
        }
        gone += int64_at(result->get(), 0, 0);
        reached.reset();
        if (auto id = optional_text_at(result->get(), 0, 2)) {
            reached = PurgePosition{age, int64_at(result->get(), 0, 1), std::move(*id)};
        }
    }
    const MutexLock lock(mutex_);
    purged_.at(index) = std::move(reached);
    return gone;
}

Result<std::int64_t> PostgresDeadLetters::purge_history(Duration age, std::int32_t limit) {
    TRY(check_upkeep_span("age", age));
    TRY(check_upkeep_limit(limit));
    std::int64_t from = 0;
    {
        const MutexLock lock(mutex_);
        from = start_of(history_purged_, age).to;
    }
    TRY_ASSIGN(auto result,
               run_once(pool_, sql_[letters::sql::purge_history], Params(to_seconds(age), limit, from), Effect::write));
    const std::int64_t gone = int64_at(result.get(), 0, 0);
    const MutexLock lock(mutex_);
    history_purged_.reset();
    if (gone == limit && PQgetisnull(result.get(), 0, 1) == 0) {
        history_purged_ = PurgePosition{age, int64_at(result.get(), 0, 1), {}};
    }
    return gone;
}

}  // namespace deliverd::store::postgres
