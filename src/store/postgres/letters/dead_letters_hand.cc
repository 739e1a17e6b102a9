#include <array>
#include <limits>
#include <utility>

#include "base/uuid.h"
#include "store/letter_rules.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/letters/dead_letters.h"
#include "store/postgres/letters/letter_rows.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::postgres {
namespace {

/// Before the first there can be.
constexpr std::int64_t kFromTheBeginning = std::numeric_limits<std::int64_t>::min();  // -infinity
constexpr std::string_view kLowestId = "00000000-0000-0000-0000-000000000000";

}  // namespace

Result<std::optional<Letter>> PostgresDeadLetters::mark_dead(std::string_view id, std::string_view actor) {
    return change_by_hand(id, actor, sql_.mark_dead);
}

Result<std::optional<Letter>> PostgresDeadLetters::revive(std::string_view id, std::string_view actor) {
    return change_by_hand(id, actor, sql_.revive);
}

Result<std::optional<Letter>> PostgresDeadLetters::change_by_hand(std::string_view id, std::string_view actor,
                                                                  const Statement& change) {
    if (auto ok = check_upkeep_name("actor", actor); !ok) return Failure(std::move(ok.error()));
    const std::string uuid = canonical_uuid(id);
    if (uuid.empty()) return std::nullopt;
    Params which;
    which.literal(uuid);
    Params params = which;
    params.text(actor);
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    // The lock first and by itself: the change then begins with what stands in the row.
    const std::array steps = {Step{&sql_.lock, &which}, Step{&change, &params}};
    auto results = (*connection)->run(steps, Effect::write, (*connection)->statement_deadline());
    if (!results) return Failure(std::move(results.error()));
    const PGresult* before = results->front().get();
    if (PQntuples(before) == 0) return std::nullopt;
    return letter_at(before, 0);
}

Result<Removal> PostgresDeadLetters::remove(std::string_view id, std::string_view actor) {
    if (auto ok = check_upkeep_name("actor", actor); !ok) return Failure(std::move(ok.error()));
    const std::string uuid = canonical_uuid(id);
    if (uuid.empty()) return Removal::unknown;
    Params params;
    params.literal(uuid).text(actor);
    auto result = run_once(pool_, sql_.remove, params, Effect::write);
    if (!result) return Failure(std::move(result.error()));
    if (int64_at(result->get(), 0, 1) == 1) return Removal::removed;
    return int64_at(result->get(), 0, 0) == 1 ? Removal::under_way : Removal::unknown;
}

PostgresDeadLetters::Purged PostgresDeadLetters::start_of(const std::optional<Purged>& before, Duration age) {
    const std::lock_guard lock(mutex_);
    return before && before->age == age ? *before : Purged{age, kFromTheBeginning, std::string(kLowestId)};
}

Result<std::int64_t> PostgresDeadLetters::purge(LetterStatus status, Duration age, std::int32_t limit,
                                                std::string_view actor) {
    if (auto ok = check_upkeep_span("age", age); !ok) return Failure(std::move(ok.error()));
    if (auto ok = check_upkeep_limit(limit); !ok) return Failure(std::move(ok.error()));
    if (auto ok = check_upkeep_name("actor", actor); !ok) return Failure(std::move(ok.error()));
    std::optional<Purged>& purged = purged_.at(static_cast<std::size_t>(status));
    std::optional<Purged> reached = start_of(purged, age);
    std::int64_t gone = 0;
    while (reached && gone < limit) {
        Params params;
        params.text(to_string(status)).float64(to_seconds(age)).int32(static_cast<std::int32_t>(limit - gone));
        params.int64(reached->to).literal(reached->id).text(actor).int32(kMaxLookedAt);
        auto result = run_once(pool_, sql_.purge, params, Effect::write);
        if (!result) {
            if (gone == 0) return Failure(std::move(result.error()));
            break;  // what is deleted is told, and the next call meets the fault
        }
        gone += int64_at(result->get(), 0, 0);
        reached.reset();
        if (auto id = optional_text_at(result->get(), 0, 2)) {
            reached = Purged{age, int64_at(result->get(), 0, 1), std::move(*id)};
        }
    }
    const std::lock_guard lock(mutex_);
    purged = std::move(reached);
    return gone;
}

Result<std::int64_t> PostgresDeadLetters::purge_history(Duration age, std::int32_t limit) {
    if (auto ok = check_upkeep_span("age", age); !ok) return Failure(std::move(ok.error()));
    if (auto ok = check_upkeep_limit(limit); !ok) return Failure(std::move(ok.error()));
    Params params;
    params.float64(to_seconds(age)).int32(limit).int64(start_of(history_purged_, age).to);
    auto result = run_once(pool_, sql_.purge_history, params, Effect::write);
    if (!result) return Failure(std::move(result.error()));
    const std::int64_t gone = int64_at(result->get(), 0, 0);
    const std::lock_guard lock(mutex_);
    history_purged_.reset();
    if (gone == limit && PQgetisnull(result->get(), 0, 1) == 0) {
        history_purged_ = Purged{age, int64_at(result->get(), 0, 1), {}};
    }
    return gone;
}

}  // namespace deliverd::store::postgres
