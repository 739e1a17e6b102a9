#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/try.h"
#include "base/uuid.h"
#include "store/letter_rules.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/letters/dead_letters.h"
#include "store/postgres/letters/letter_rows.h"
#include "store/postgres/letters/statements.h"

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

}  // namespace

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
    TRY_ASSIGN(auto connection, pool_.borrow());
    const std::array steps = {Step{&sql_[letters::sql::begin_retry], &params},
                              Step{&sql_[letters::sql::find_letters], &which}};
    TRY_ASSIGN(auto results, connection->run(steps, Effect::write, connection->statement_deadline()));

    std::unordered_map<std::string, BeginAnswer> begun;
    const PGresult* rows = results.front().get();
    for (int row = 0; row < PQntuples(rows); ++row) {
        BeginAnswer& one = begun[std::string(text_at(rows, row, 0))];
        one.begun = one.begun || bool_at(rows, row, 1);
        one.live = one.live || bool_at(rows, row, 2);
        one.taken_over = one.taken_over || bool_at(rows, row, 3);
    }
    std::unordered_map<std::string, int> found;
    rows = results.back().get();
    for (int row = 0; row < PQntuples(rows); ++row) found.emplace(text_at(rows, row, 0), row);
    for (RetryClaim& claim : claims) {
        const auto at = found.find(canonical_uuid(claim.id));
        if (at == found.end()) continue;
        BeginAnswer& one = begun[at->first];
        describe(claim, one, detail_at(rows, at->second));
        one = {.live = true};  // the same id a second time is another's
    }
    return claims;
}

Result<std::int64_t> PostgresDeadLetters::end_retry(std::string_view owner, std::string_view actor,
                                                    std::span<const RetryEnd> ends) {
    TRY(check_retry_request({std::string(owner), std::string(actor)}));
    if (ends.empty()) return 0;
    std::vector<std::pair<std::string, const RetryEnd*>> order;
    for (const RetryEnd& end : ends) {
        if (std::string id = canonical_uuid(end.id); !id.empty()) order.emplace_back(std::move(id), &end);
    }
    std::ranges::stable_sort(order, {}, [](const auto& entry) -> const std::string& { return entry.first; });
    std::vector<std::optional<std::string>> ids;
    std::vector<std::int32_t> kinds;
    std::vector<std::optional<std::string>> details;
    for (auto& [id, end] : order) {
        if (!ids.empty() && ids.back() == id) continue;
        ids.emplace_back(std::move(id));
        kinds.push_back(static_cast<std::int32_t>(end->result));
        details.emplace_back(letter_note(end->detail));
    }
    TRY_ASSIGN(auto result, run_once(pool_, sql_[letters::sql::end_retry], Params(owner, actor, ids, kinds, details),
                                     Effect::write));
    return int64_at(result.get(), 0, 0);
}

}  // namespace deliverd::store::postgres
