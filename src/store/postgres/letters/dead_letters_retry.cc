#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/try.h"
#include "base/uuid.h"
#include "store/letter_columns.h"
#include "store/letter_rules.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/letters/dead_letters.h"
#include "store/postgres/letters/statements.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

// The statements name the results by number.
static_assert(static_cast<int>(RetryResult::published) == 0 && static_cast<int>(RetryResult::failed) == 1 &&
              static_cast<int>(RetryResult::in_doubt) == 2 && static_cast<int>(RetryResult::not_tried) == 3 &&
              static_cast<int>(RetryResult::unpublished) == 4 && kReturned == 5);

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

constexpr const char* kNoTable =
    "the table of its lane's events is not known yet: start the lane, and retry after it has given up an event";

using Texts = std::vector<std::string>;

/// Where the events of a lane are; the names quoted, "" for a column that is not there.
struct EventsPlace {
    std::string table, id, id_type, published, retry_count, next_attempt_at, dead_at, event_id;

    [[nodiscard]] bool keeps_failures() const { return !dead_at.empty(); }
};

// A table whose events have no columns for failures has them in deliverd.event_failures, and the failure there decides.
// Its row id may have been given to another event since, where ids start over: an event id tells them apart.
Statement return_statement(const EventsPlace& place) {
    const std::string same_event =
        place.event_id.empty() ? "true" : "coalesce(f.event_id = o." + place.event_id + "::text, true)";
    const std::string unpublished = place.published.empty() ? "true" : "o." + place.published + " is not true";
    return statement_by_text("letters_return_events", filled(place.keeps_failures() ? letters::sql::return_events
                                                                                    : letters::sql::return_event_lines,
                                                             {{"table", place.table},
                                                              {"id", place.id},
                                                              {"id_type", place.id_type},
                                                              {"dead_at", place.dead_at},
                                                              {"retry_count", place.retry_count},
                                                              {"next_attempt_at", place.next_attempt_at},
                                                              {"same_event", same_event},
                                                              {"unpublished", unpublished}}));
}

/// The letters of one outbox and lane.
struct Group {
    EventsPlace place;
    Texts rows;
    Texts ids;  // of the letters, one a row
};

/// All inside a transaction of the caller's: row, letter and audit change together, or a crash would leave a letter
/// that is RESOLVED and whose row was never put back.
class Returning {
public:
    Returning(Transaction& transaction, const Statements& sql) : transaction_(transaction), sql_(sql) {}

    /// Those of the ids whose retry is the owner's.
    Result<void> find(std::string_view owner, const Texts& ids) {
        TRY_ASSIGN(auto result, transaction_.run(sql_[letters::sql::owned_letters], Params(owner, ids)));
        for (const Row& row : rows_of(result.get())) {
            std::string id, lane, outbox, row_id;
            EventsPlace place;
            row.read(id, lane, outbox, row_id, place.table, place.id, place.id_type, place.published, place.retry_count,
                     place.next_attempt_at, place.dead_at, place.event_id);
            problems_[id] = kRowGone;
            if (row_id.empty()) continue;
            Group& group = groups_[{outbox, lane}];
            group.place = std::move(place);
            group.rows.push_back(std::move(row_id));
            group.ids.push_back(std::move(id));
        }
        return {};
    }

    Result<void> put_back(std::string_view actor) {
        for (const auto& [key, group] : groups_) {
            const auto& [outbox, lane] = key;
            if (outbox != "events" && outbox != "memory") continue;
            // Written with each letter. One that a migration made of an older failure may have none yet.
            if (outbox == "events" && group.place.table.empty()) {
                for (const std::string& id : group.ids) problems_[id] = kNoTable;
                continue;
            }
            Params params(group.rows);
            if (outbox == "events" && !group.place.keeps_failures()) params.text(lane);
            TRY_ASSIGN(auto result, transaction_.run(outbox == "memory" ? sql_[letters::sql::return_memories]
                                                                        : return_statement(group.place),
                                                     params));
            const Texts rows = rows_as(result.get(), [](const Row& row) { return row.get<std::string>(); });
            // The others are gone, or somebody has changed them by hand: sent, or open again.
            const std::set<std::string_view> back(rows.begin(), rows.end());
            for (std::size_t i = 0; i < group.ids.size(); ++i) {
                if (back.contains(group.rows[i])) problems_[group.ids[i]].clear();
            }
            TRY(transaction_.run(sql_[letters::sql::note_returned], Params(outbox, rows, actor)));
        }
        return {};
    }

    Result<void> end(std::string_view owner, std::string_view actor) {
        const auto result = [](const auto& letter) {
            return letter.second.empty() ? kReturned : static_cast<std::int32_t>(RetryResult::failed);
        };
        const Params params(owner, actor, column(problems_, [](const auto& letter) { return letter.first; }),
                            column(problems_, result),
                            column(problems_, [](const auto& letter) { return letter.second; }));
        TRY(transaction_.run(sql_[letters::sql::end_retry], params));
        return {};
    }

    /// By id, without the letters that are not the owner's.
    [[nodiscard]] std::map<std::string, std::string>& problems() { return problems_; }

private:
    Transaction& transaction_;
    const Statements& sql_;
    std::map<std::string, std::string> problems_;
    std::map<std::pair<std::string, std::string>, Group> groups_;
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

Result<std::vector<RetryClaim>> PostgresDeadLetters::begin_retry(std::span<const std::string> ids,
                                                                 const RetryRequest& request) {
    TRY(check_retry_request(request));
    std::vector<RetryClaim> claims;
    claims.reserve(ids.size());
    for (const std::string& id : ids) claims.push_back(RetryClaim{id});
    const auto sorted = sorted_ids(ids);
    if (sorted.empty()) return claims;
    const Params which(sorted);
    const Params params(sorted, request.owner, to_seconds(request.lease), request.actor);
    // In one transaction, which is on the disk before the first letter is sent. The second statement sees the letters
    // as the first one left them, and those that it could not begin.
    const std::array steps = {Step{&sql_[letters::sql::begin_retry], &params},
                              Step{&sql_[letters::sql::find_letters], &which}};
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

Result<std::int64_t> PostgresDeadLetters::end_retry(std::string_view owner, std::string_view actor,
                                                    std::span<const RetryEnd> ends) {
    TRY(check_retry_request({std::string(owner), std::string(actor)}));
    if (ends.empty()) return 0;
    // In the order in which everything locks letters, and the first end of each id.
    std::map<std::string, const RetryEnd*> by_id;
    for (const RetryEnd& end : ends) by_id.emplace(canonical_uuid(end.id), &end);
    by_id.erase("");  // those that are no ids
    const Params params(owner, actor, column(by_id, [](const auto& one) { return one.first; }),
                        column(by_id, [](const auto& one) { return static_cast<std::int32_t>(one.second->result); }),
                        column(by_id, [](const auto& one) { return letter_note(one.second->detail); }));
    TRY_ASSIGN(auto result, run_once(pool_, sql_[letters::sql::end_retry], params, Effect::write));
    return int64_at(result.get(), 0, 0);
}

Result<std::vector<std::string>> PostgresDeadLetters::return_to_lane(std::string_view owner, std::string_view actor,
                                                                     std::span<const std::string> ids) {
    TRY(check_retry_request({std::string(owner), std::string(actor)}));
    std::vector<std::string> answers(ids.size(), std::string(kRetryEnded));
    const auto sorted = sorted_ids(ids);
    if (sorted.empty()) return answers;
    TRY_ASSIGN(auto transaction, Transaction::begin(pool_));
    Returning returning(transaction, sql_);
    TRY(returning.find(owner, sorted));
    TRY(returning.put_back(actor));
    TRY(returning.end(owner, actor));
    TRY(transaction.commit());
    for (std::size_t i = 0; i < ids.size(); ++i) {
        // Taken out: when an id comes a second time, its retry has ended.
        if (auto letter = returning.problems().extract(canonical_uuid(ids[i]))) answers[i] = std::move(letter.mapped());
    }
    return answers;
}

}  // namespace deliverd::store::postgres
