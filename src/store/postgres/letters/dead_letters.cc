#include "store/postgres/letters/dead_letters.h"

#include <array>
#include <limits>
#include <utility>

#include "base/try.h"
#include "base/uuid.h"
#include "deliverd/error_codes.h"
#include "store/letter_columns.h"
#include "store/letter_rules.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/letters/letter_query.h"
#include "store/postgres/letters/statements.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::postgres {
namespace {

constexpr std::int64_t kFromTheBeginning = std::numeric_limits<std::int64_t>::min();  // -infinity

}  // namespace

PostgresDeadLetters::PostgresDeadLetters(Pool& pool, const std::string& schema)
    : pool_(pool), sql_(schema, {letters::sql::all}) {}

Result<LetterPage> PostgresDeadLetters::list(const LetterQuery& query) {
    TRY(check_letter_query(query));
    // A position comes from outside (the API's next_cursor). The server would refuse it with words about a uuid.
    if (query.after && canonical_uuid(query.after->id).empty()) {
        return permanent(codes::kBadArgument, "the position is not one of this store's");
    }
    const LetterSelect page = select_page(query);
    const LetterSelect total = select_total(query);
    // One transaction, but each statement sees its own moment: the total may already count a letter that the page
    // lacks.
    const std::array steps = {Step{&page.statement, &page.params}, Step{&total.statement, &total.params}};
    TRY_ASSIGN(auto results, run_once(pool_, steps, Effect::read));

    LetterPage out;
    out.letters = rows_as(results.front().get(), [](const Row& row) {
        Letter letter = letter_at(row);
        row.read_from(kLetterColumns, letter.payload_left_out);
        return letter;
    });
    out.has_next = std::ssize(out.letters) > query.limit;
    if (out.has_next) out.letters.pop_back();
    set_total(out, query, int64_at(results.back().get(), 0, 0));
    return out;
}

Result<std::optional<LetterDetail>> PostgresDeadLetters::find(std::string_view id) {
    const auto ids = sorted_ids(std::array{std::string(id)});
    if (ids.empty()) return std::nullopt;
    TRY_ASSIGN(auto result, run_once(pool_, sql_[letters::sql::find_letters], Params(ids), Effect::read));
    if (PQntuples(result.get()) == 0) return std::nullopt;
    return detail_at(Row(result.get(), 0));
}

Result<std::vector<LetterAudit>> PostgresDeadLetters::audit(std::string_view id, std::int32_t limit) {
    TRY(check_upkeep_limit(limit));
    const std::string uuid = canonical_uuid(id);
    if (uuid.empty()) return std::vector<LetterAudit>{};
    TRY_ASSIGN(auto result,
               run_once(pool_, sql_[letters::sql::letter_audit], Params(std::optional{uuid}, limit), Effect::read));
    return rows_as(result.get(), &audit_line_at<Row>);
}

Result<std::vector<TopicCounts>> PostgresDeadLetters::topics() {
    TRY_ASSIGN(auto result, run_once(pool_, sql_[letters::sql::topics], Params(), Effect::read));
    return rows_as(result.get(), &topic_counts_at<Row>);
}

Result<std::vector<Destination>> PostgresDeadLetters::destinations(std::string_view topic, std::int32_t limit) {
    TRY(check_upkeep_limit(limit));
    TRY_ASSIGN(auto result, run_once(pool_, sql_[letters::sql::destinations], Params(topic, limit), Effect::read));
    return rows_as(result.get(), &destination_at<Row>);
}

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
    // The lock first and by itself: the change then begins with what is in the row.
    const std::array steps = {Step{&sql_[letters::sql::lock_letter], &which}, Step{&sql_[change], &params}};
    TRY_ASSIGN(auto results, run_once(pool_, steps, Effect::write));
    const PGresult* before = results.front().get();
    if (PQntuples(before) == 0) return std::nullopt;
    return letter_at(Row(before, 0));
}

Result<Removal> PostgresDeadLetters::remove(std::string_view id, std::string_view actor) {
    TRY(check_upkeep_name("actor", actor));
    const std::string uuid = canonical_uuid(id);
    if (uuid.empty()) return Removal::unknown;
    TRY_ASSIGN(auto result,
               run_once(pool_, sql_[letters::sql::remove_letter], Params(std::optional{uuid}, actor), Effect::write));
    // The columns: whether there is such a letter, and whether it was deleted.
    if (int64_at(result.get(), 0, 1) == 1) return Removal::removed;
    return int64_at(result.get(), 0, 0) == 1 ? Removal::under_way : Removal::unknown;
}

PostgresDeadLetters::PurgePosition PostgresDeadLetters::start_of(const std::optional<PurgePosition>& before,
                                                                 Duration age) {
    return before && before->age == age ? *before : PurgePosition{age, kFromTheBeginning, std::string(kLowestLetterId)};
}

Result<std::int64_t> PostgresDeadLetters::purge(LetterStatus status, Duration age, std::int32_t limit,
                                                std::string_view actor) {
    TRY(check_upkeep_span("age", age));
    TRY(check_upkeep_limit(limit));
    TRY(check_upkeep_name("actor", actor));
    const auto index = static_cast<std::size_t>(status);
    std::optional<PurgePosition> reached;
    // The mutex is not held while statements run: two purges at once start at one place, skip what the other has
    // locked, and the later one's position stays. At worst a letter is looked at twice.
    {
        const MutexLock lock(mutex_);
        reached = start_of(purged_.at(index), age);
    }
    std::int64_t gone = 0;
    // A statement looks at kMaxLookedAt letters: one that walked past ten million PENDING letters, which are kept for
    // ever, to find the RESOLVED would run into the statement timeout each time.
    while (reached && gone < limit) {
        const Params params(to_string(status), to_seconds(age), static_cast<std::int32_t>(limit - gone), reached->to,
                            std::optional{reached->id}, actor, kMaxLookedAt);
        auto result = run_once(pool_, sql_[letters::sql::purge_letters], params, Effect::write);
        if (!result) {
            if (gone == 0) return Failure(std::move(result.error()));
            break;  // what is deleted is reported, and the next call meets the fault
        }
        gone += int64_at(result->get(), 0, 0);
        // Behind the letter, not its time: an INSERT of many gives all of them one time.
        reached.reset();
        if (auto id = Row(result->get(), 0).get<std::optional<std::string>>(2)) {
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
    // Fewer than the limit: nothing is left for now. The next call starts over and finds what has become old since.
    history_purged_.reset();
    if (gone == limit && PQgetisnull(result.get(), 0, 1) == 0) {
        history_purged_ = PurgePosition{age, int64_at(result.get(), 0, 1), {}};
    }
    return gone;
}

}  // namespace deliverd::store::postgres
