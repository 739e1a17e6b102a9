#include "store/postgres/letters/dead_letters.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "base/try.h"
#include "base/uuid.h"
#include "deliverd/error_codes.h"
#include "store/letter_columns.h"
#include "store/letter_rules.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/letters/statements.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::postgres {
namespace {

constexpr std::int64_t kFromTheBeginning = std::numeric_limits<std::int64_t>::min();  // -infinity

/// Of one letter, what begin answered.
struct BeginAnswer {
    bool begun = false;
    bool live = false;  // another's
    bool taken_over = false;
};

void describe(RetryClaim& claim, const BeginAnswer& answer, LetterDetail detail) {
    if (answer.begun) {
        claim.verdict = RetryVerdict::begun;
        claim.taken_over = answer.taken_over;
    } else {
        const std::string refusal = retry_refusal(detail.letter);
        claim.verdict = retry_verdict(detail.letter, refusal, answer.live);
        // Free again when it was looked at, and not when it was tried.
        if (claim.verdict == RetryVerdict::begun) claim.verdict = RetryVerdict::under_way;
        claim.reason = retry_reason(claim.verdict, detail.letter, refusal);
    }
    claim.letter = std::move(detail);
}

/// What next_of_redrive answers behind the columns of a letter; see sql/redrives.sql.
constexpr int kHeldColumn = kDetailColumns;
constexpr int kLookedColumn = kHeldColumn + 1;
constexpr int kTakenOverColumn = kLookedColumn + 1;

bool older(const RetryClaim& one, const RetryClaim& other) {
    return std::tie(one.letter->letter.created_at, one.id) < std::tie(other.letter->letter.created_at, other.id);
}

class PostgresDeadLetters final : public DeadLetters {
public:
    PostgresDeadLetters(Pool& pool, const std::string& schema) : pool_(pool), sql_(schema, {letters::sql::all}) {}

    Result<std::int64_t> store(std::span<const NewLetter> letters) override { return store_letters(pool_, letters); }

    Result<LetterPage> list(const LetterQuery& query) override {
        TRY(check_letter_query(query));
        // A position comes from outside (the API's next_cursor). The server would refuse it with words about a uuid.
        if (query.after && canonical_uuid(query.after->id).empty()) {
            return permanent(codes::kBadArgument, "the position is not one of this store's");
        }
        LetterSelect page = select_page(query);
        LetterSelect total = select_total(query);
        // One transaction, but each statement sees its own moment: the total may already count a letter that the page
        // lacks.
        const std::array steps = {Step{&page.statement, std::move(page.params)},
                                  Step{&total.statement, std::move(total.params)}};
        TRY_ASSIGN(auto results, run_once(pool_, steps, Effect::read));

        LetterPage out;
        out.letters = rows_as(results.front().get(), [](const Row& row) {
            Letter letter = letter_at(row);
            row.read_from(kLetterColumns, letter.payload_left_out);
            return letter;
        });
        out.has_next = std::ssize(out.letters) > query.limit;
        if (out.has_next) out.letters.pop_back();
        set_total(out, query, Row(results.back().get()).get<std::int64_t>());
        return out;
    }

    Result<std::optional<LetterDetail>> find(std::string_view id) override {
        const auto ids = sorted_ids(std::array{std::string(id)});
        if (ids.empty()) return std::nullopt;
        TRY_ASSIGN(auto result, run_once(pool_, sql_[letters::sql::find_letters], Params(ids), Effect::read));
        if (PQntuples(result.get()) == 0) return std::nullopt;
        return detail_at(Row(result.get()));
    }

    Result<std::vector<LetterAudit>> audit(std::string_view id, std::int32_t limit) override {
        TRY(check_upkeep_limit(limit));
        const std::string uuid = canonical_uuid(id);
        if (uuid.empty()) return std::vector<LetterAudit>{};
        TRY_ASSIGN(auto result,
                   run_once(pool_, sql_[letters::sql::letter_audit], Params(std::optional{uuid}, limit), Effect::read));
        return rows_as(result.get(), &audit_line_at<Row>);
    }

    Result<std::vector<TopicCounts>> topics() override {
        TRY_ASSIGN(auto result, run_once(pool_, sql_[letters::sql::topics], Params(), Effect::read));
        return rows_as(result.get(), &topic_counts_at<Row>);
    }

    Result<std::vector<Destination>> destinations(std::string_view topic, std::int32_t limit) override {
        TRY(check_upkeep_limit(limit));
        TRY_ASSIGN(auto result, run_once(pool_, sql_[letters::sql::destinations], Params(topic, limit), Effect::read));
        return rows_as(result.get(), &destination_at<Row>);
    }

    Result<std::vector<RetryClaim>> begin_retry(std::span<const std::string> ids,
                                                const RetryRequest& request) override {
        TRY(check_retry_request(request));
        std::vector<RetryClaim> claims;
        claims.reserve(ids.size());
        for (const std::string& id : ids) claims.push_back(RetryClaim{id});
        const auto sorted = sorted_ids(ids);
        if (sorted.empty()) return claims;
        // In one transaction, which is on the disk before the first letter is sent. The second statement sees the
        // letters as the first one left them, and those that it could not begin.
        const Params params(sorted, request.owner, to_seconds(request.lease), request.actor);
        const std::array steps = {Step{&sql_[letters::sql::begin_retry], params},
                                  Step{&sql_[letters::sql::find_letters], Params(sorted)}};
        TRY_ASSIGN(auto results, run_once(pool_, steps, Effect::write));

        // A letter that was begun has two lines: that it was, and how it was found.
        std::unordered_map<std::string, BeginAnswer> begun;
        for (const Row& row : rows_of(results.front().get())) {
            BeginAnswer& one = begun[row.get<std::string>()];
            one.begun = one.begun || row.get<bool>(1);
            one.live = one.live || row.get<bool>(2);
            one.taken_over = one.taken_over || row.get<bool>(3);
        }
        std::unordered_map<std::string, Row> found;
        for (const Row& row : rows_of(results.back().get())) found.emplace(row.get<std::string>(), row);
        for (RetryClaim& claim : claims) {
            const auto at = found.find(canonical_uuid(claim.id));
            if (at == found.end()) continue;
            BeginAnswer& one = begun[at->first];
            describe(claim, one, detail_at(at->second));
            one = {.live = true};  // the same id a second time is another's
        }
        return claims;
    }

    Result<std::int64_t> end_retry(std::string_view owner, std::string_view actor,
                                   std::span<const RetryEnd> ends) override {
        TRY(check_retry_request({std::string(owner), std::string(actor)}));
        if (ends.empty()) return 0;
        // In the order in which everything locks letters, and the first end of each id.
        std::map<std::string, const RetryEnd*> by_id;
        for (const RetryEnd& end : ends) by_id.emplace(canonical_uuid(end.id), &end);
        by_id.erase("");  // those that are no ids
        const Params params(
            owner, actor, column(by_id, [](const auto& one) { return one.first; }),
            column(by_id, [](const auto& one) { return static_cast<std::int32_t>(one.second->result); }),
            column(by_id, [](const auto& one) { return letter_note(one.second->detail); }));
        TRY_ASSIGN(auto result, run_once(pool_, sql_[letters::sql::end_retry], params, Effect::write));
        return Row(result.get()).get<std::int64_t>();
    }

    Result<std::vector<std::string>> return_to_lane(std::string_view owner, std::string_view actor,
                                                    std::span<const std::string> ids) override {
        TRY(check_retry_request({std::string(owner), std::string(actor)}));
        return return_letters(pool_, sql_, owner, actor, ids);
    }

    Result<std::optional<Redrive>> open_redrive(std::string_view topic, std::string_view owner, std::string_view actor,
                                                Duration lease) override {
        TRY(check_upkeep_name("topic", topic));
        TRY(check_retry_request({std::string(owner), std::string(actor), lease}));
        // Two statements: the second sees the letters that the first has freed, and the row it locked stays locked
        // between.
        const std::array steps = {
            Step{&sql_[letters::sql::free_redrive], Params(topic, owner)},
            Step{&sql_[letters::sql::open_redrive], Params(topic, owner, actor, to_seconds(lease))}};
        TRY_ASSIGN(auto results, run_once(pool_, steps, Effect::write));
        const PGresult* opened = results.back().get();
        if (PQntuples(opened) == 0) return std::nullopt;
        return redrive_at(Row(opened));
    }

    Result<std::vector<RetryClaim>> next_of_redrive(std::string_view topic, const RetryRequest& request,
                                                    const RedrivePage& page) override {
        TRY(check_retry_request(request));
        TRY(check_upkeep_limit(page.letters));
        const Params params(topic, request.owner, page.letters, to_seconds(request.lease), request.actor,
                            std::max<std::int64_t>(1, page.bytes), page.left_out_topics);
        std::vector<RetryClaim> claims;
        // An empty answer means the end, so it must not come from a page whose letters could not be begun. Each turn
        // moves the position, also where all that it looked at was being retried just then.
        for (std::int64_t looked = 1; claims.empty() && looked > 0;) {
            TRY_ASSIGN(auto result, run_once(pool_, sql_[letters::sql::next_of_redrive], params, Effect::write));
            const std::vector<Row> rows = rows_of(result.get());
            if (rows.front().get<std::int64_t>(kHeldColumn) == 0) return redrive_not_owned(topic);
            looked = rows.front().get<std::int64_t>(kLookedColumn);
            claims.reserve(rows.size());
            for (const Row& row : rows) {
                if (row.get<std::string_view>().empty()) continue;  // the line without a letter
                LetterDetail detail = detail_at(row);
                std::string id = detail.letter.id;
                claims.push_back(
                    {std::move(id), RetryVerdict::begun, {}, std::move(detail), row.get<bool>(kTakenOverColumn)});
            }
        }
        // The statement answers in no order: sorting there would sort whole rows, and nearly always they come sorted.
        if (!std::ranges::is_sorted(claims, older)) std::ranges::sort(claims, older);
        return claims;
    }

    Result<std::int64_t> end_of_redrive_page(std::string_view /*topic*/, std::string_view owner, std::string_view actor,
                                             std::span<const RetryEnd> ends) override {
        // An owner has one redrive: what it began counts there.
        return end_retry(owner, actor, ends);
    }

    Result<Redrive> close_redrive(std::string_view topic, std::string_view owner) override {
        TRY_ASSIGN(auto result,
                   run_once(pool_, sql_[letters::sql::close_redrive], Params(topic, owner), Effect::write));
        if (PQntuples(result.get()) == 0) return redrive_not_owned(topic);
        return redrive_at(Row(result.get()));
    }

    Result<void> release_redrive(std::string_view topic, std::string_view owner) override {
        TRY(run_once(pool_, sql_[letters::sql::release_redrive], Params(topic, owner), Effect::write));
        return {};
    }

    Result<std::vector<Redrive>> abandoned_redrives() override {
        TRY_ASSIGN(auto result, run_once(pool_, sql_[letters::sql::abandoned_redrives], Params(), Effect::read));
        return rows_as(result.get(), &redrive_at<Row>);
    }

    Result<std::optional<Letter>> mark_dead(std::string_view id, std::string_view actor) override {
        return change_by_hand(id, actor, letters::sql::mark_dead);
    }

    Result<std::optional<Letter>> revive(std::string_view id, std::string_view actor) override {
        return change_by_hand(id, actor, letters::sql::revive);
    }

    Result<Removal> remove(std::string_view id, std::string_view actor) override {
        TRY(check_upkeep_name("actor", actor));
        const std::string uuid = canonical_uuid(id);
        if (uuid.empty()) return Removal::unknown;
        TRY_ASSIGN(auto result, run_once(pool_, sql_[letters::sql::remove_letter], Params(std::optional{uuid}, actor),
                                         Effect::write));
        // The columns: whether there is such a letter, and whether it was deleted.
        if (Row(result.get()).get<std::int64_t>(1) == 1) return Removal::removed;
        return Row(result.get()).get<std::int64_t>() == 1 ? Removal::under_way : Removal::unknown;
    }

    Result<std::int64_t> purge(LetterStatus status, Duration age, std::int32_t limit, std::string_view actor) override {
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
        // A statement looks at kMaxLookedAt letters: one that walked past ten million PENDING letters, which are kept
        // for ever, to find the RESOLVED would run into the statement timeout each time.
        while (reached && gone < limit) {
            const Params params(to_string(status), to_seconds(age), static_cast<std::int32_t>(limit - gone),
                                reached->to, std::optional{reached->id}, actor, kMaxLookedAt);
            auto result = run_once(pool_, sql_[letters::sql::purge_letters], params, Effect::write);
            if (!result) {
                if (gone == 0) return Failure(std::move(result.error()));
                break;  // what is deleted is reported, and the next call meets the fault
            }
            const Row answer(result->get());
            gone += answer.get<std::int64_t>();
            // Behind the letter, not its time: an INSERT of many gives all of them one time.
            reached.reset();
            if (auto id = answer.get<std::optional<std::string>>(2)) {
                reached = PurgePosition{age, answer.get<std::int64_t>(1), std::move(*id)};
            }
        }
        const MutexLock lock(mutex_);
        purged_.at(index) = std::move(reached);
        return gone;
    }

    Result<std::int64_t> purge_history(Duration age, std::int32_t limit) override {
        TRY(check_upkeep_span("age", age));
        TRY(check_upkeep_limit(limit));
        std::int64_t from = 0;
        {
            const MutexLock lock(mutex_);
            from = start_of(history_purged_, age).to;
        }
        TRY_ASSIGN(auto result, run_once(pool_, sql_[letters::sql::purge_history], Params(to_seconds(age), limit, from),
                                         Effect::write));
        const Row answer(result.get());
        const auto gone = answer.get<std::int64_t>();
        const MutexLock lock(mutex_);
        // Fewer than the limit: nothing is left for now. The next call starts over and finds what has become old since.
        history_purged_.reset();
        const auto reached = answer.get<std::optional<std::int64_t>>(1);
        if (gone == limit && reached) history_purged_ = PurgePosition{age, *reached, {}};
        return gone;
    }

private:
    struct PurgePosition {
        Duration age{};
        std::int64_t to = 0;  // as PostgreSQL counts: not clamped to what can be shown
        std::string id;       // of a letter
    };

    /// Locks the letter and runs the statement `change` (id, actor); answers the letter as it was before.
    Result<std::optional<Letter>> change_by_hand(std::string_view id, std::string_view actor, std::string_view change) {
        TRY(check_upkeep_name("actor", actor));
        const std::string uuid = canonical_uuid(id);
        if (uuid.empty()) return std::nullopt;
        // The lock first and by itself: the change then begins with what is in the row.
        const std::array steps = {Step{&sql_[letters::sql::lock_letter], Params(std::optional{uuid})},
                                  Step{&sql_[change], Params(std::optional{uuid}, actor)}};
        TRY_ASSIGN(auto results, run_once(pool_, steps, Effect::write));
        const PGresult* before = results.front().get();
        if (PQntuples(before) == 0) return std::nullopt;
        return letter_at(Row(before));
    }

    /// Where a purge continues: where the one before it ended, if that was by the same age.
    static PurgePosition start_of(const std::optional<PurgePosition>& before, Duration age) {
        return before && before->age == age ? *before
                                            : PurgePosition{age, kFromTheBeginning, std::string(kLowestLetterId)};
    }

    Pool& pool_;
    const Statements sql_;
    Mutex mutex_;
    /// By status: a purge that found its limit continues where it ended, behind what it had to leave.
    std::array<std::optional<PurgePosition>, 4> purged_ GUARDED_BY(mutex_);
    /// The same of the audit: what is deleted stays in the index until it is vacuumed.
    std::optional<PurgePosition> history_purged_ GUARDED_BY(mutex_);
};

}  // namespace

std::vector<std::string> sorted_ids(std::span<const std::string> ids) {
    std::vector<std::string> out;
    out.reserve(ids.size());
    for (const std::string& id : ids) {
        if (std::string uuid = canonical_uuid(id); !uuid.empty()) out.push_back(std::move(uuid));
    }
    std::ranges::sort(out);
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
}

std::unique_ptr<DeadLetters> make_dead_letters(Pool& pool, const std::string& schema) {
    return std::make_unique<PostgresDeadLetters>(pool, schema);
}

}  // namespace deliverd::store::postgres
