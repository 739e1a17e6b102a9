#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/try.h"
#include "base/uuid.h"
#include "client/sql_values.h"
#include "store/letter_rules.h"
#include "store/sqlite/letters/dead_letters.h"
#include "store/sqlite/letters/lane_letters.h"
#include "store/sqlite/letters/letter_rows.h"
#include "store/sqlite/letters/statements.h"

namespace deliverd::store::sqlite {
namespace {

/// How many retries of a call ended how.
using EndCounts = std::map<RetryResult, std::int64_t>;

/// Counts them for the redrive that began them. Changes nothing where no redrive of the owner's is open.
Result<void> add_to_redrive(Handle& handle, std::string_view owner, EndCounts counts) {
    const std::int64_t published = counts[RetryResult::published] + counts[RetryResult::unpublished];
    return handle.run(letters::sql::add_to_redrive, owner, published, counts[RetryResult::failed],
                      counts[RetryResult::in_doubt]);
}

/// The letter, while its retry is the owner's: also after the lease, as long as no other retry has begun.
Result<std::optional<Letter>> owned_letter(Handle& handle, std::string_view owner, std::string_view id) {
    TRY_ASSIGN(auto stored, stored_letter(handle, canonical_uuid(id)));
    if (!stored || stored->retry_owner != owner) return std::nullopt;
    return std::move(stored->detail.letter);
}

Result<void> write_end(Handle& handle, const Letter& letter, const RetryEffect& effect, std::string_view actor,
                       const RetryEnd& end) {
    const std::string note = letter_note(end.detail);
    std::optional<std::string> error;
    if (end.result == RetryResult::not_tried) error = letter.last_retry_error;
    if (end.result == RetryResult::failed || end.result == RetryResult::in_doubt) error = note;
    TRY(handle.run(letters::sql::end_retry, letter.id, to_string(effect.status), effect.retry_count, effect.in_doubt,
                   error, effect.was_tried));
    LetterStep step{effect.action, actor, to_string(letter.status), to_string(effect.status)};
    if (!note.empty()) step.detail = note;
    return audit_letter(handle, letter.id, step);
}

/// Puts the letter's row back into its lane and ends the retry. Answers why the row did not go back; empty when it did.
Result<std::string> return_letter(Handle& handle, const Letter& letter, std::string_view actor) {
    std::string problem(kRowGone);
    if (letter.lane_row) {
        TRY_ASSIGN(const bool returned, return_row(handle, *letter.lane_row, actor));
        if (returned) problem.clear();
    }
    const bool back = problem.empty();
    const RetryEnd end{letter.id, back ? RetryResult::published : RetryResult::failed, problem};
    RetryEffect effect = retry_effect(letter, end.result);
    if (back) effect.action = "returned";
    TRY(write_end(handle, letter, effect, actor, end));
    return problem;
}

}  // namespace

Result<RetryClaim> begin_retry_of(Handle& handle, const std::string& id, const RetryRequest& request,
                                  std::string_view redrive_began) {
    RetryClaim claim{id};
    TRY_ASSIGN(auto stored, stored_letter(handle, canonical_uuid(id)));
    if (!stored) return claim;
    const Letter& before = stored->detail.letter;
    const std::string refusal = retry_refusal(before);
    claim.verdict = retry_verdict(before, refusal, stored->retry_is_live);
    claim.reason = retry_reason(claim.verdict, before, refusal);
    if (claim.verdict == RetryVerdict::begun) {
        claim.taken_over = before.unfinished;
        TRY(handle.run(letters::sql::begin_retry, before.id, request.owner, client::time_ahead(request.lease),
                       !claim.taken_over, claim.taken_over, redrive_began));
        // A redrive begins thousands: the line that ends each is enough, except where one may have been published.
        if (redrive_began.empty() || claim.taken_over) {
            LetterStep step{"retry_begun", request.actor, to_string(before.status), "RETRYING"};
            if (claim.taken_over) step.detail = "an earlier retry did not end: it may have been published";
            TRY(audit_letter(handle, before.id, step));
        }
        TRY_ASSIGN(stored, stored_letter(handle, before.id));
        ASSERT(stored);  // in the same transaction
    }
    claim.letter = std::move(stored->detail);
    return claim;
}

Result<std::vector<RetryClaim>> SqliteDeadLetters::begin_retry(std::span<const std::string> ids,
                                                               const RetryRequest& request) {
    using Claims = std::vector<RetryClaim>;
    TRY(check_retry_request(request));
    if (ids.empty()) return Claims{};
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Claims> {
        Claims claims;
        claims.reserve(ids.size());
        for (const std::string& id : ids) {
            TRY_ASSIGN(auto claim, begin_retry_of(handle, id, request, ""));
            claims.push_back(std::move(claim));
        }
        return claims;
    });
}

Result<std::int64_t> SqliteDeadLetters::end_retry(std::string_view owner, std::string_view actor,
                                                  std::span<const RetryEnd> ends) {
    TRY(check_retry_request({std::string(owner), std::string(actor)}));
    if (ends.empty()) return 0;
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<std::int64_t> {
        EndCounts counts;
        std::int64_t applied = 0;
        for (const RetryEnd& end : ends) {
            TRY_ASSIGN(const auto letter, owned_letter(handle, owner, end.id));
            if (!letter) continue;
            TRY(write_end(handle, *letter, retry_effect(*letter, end.result), actor, end));
            ++counts[end.result];
            ++applied;
        }
        TRY(add_to_redrive(handle, owner, std::move(counts)));
        return applied;
    });
}

Result<std::vector<std::string>> SqliteDeadLetters::return_to_lane(std::string_view owner, std::string_view actor,
                                                                   std::span<const std::string> ids) {
    using Problems = std::vector<std::string>;
    TRY(check_retry_request({std::string(owner), std::string(actor)}));
    if (ids.empty()) return Problems{};
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Problems> {
        EndCounts counts;
        Problems problems(ids.size(), std::string(kRetryEnded));
        for (std::size_t i = 0; i < ids.size(); ++i) {
            TRY_ASSIGN(const auto letter, owned_letter(handle, owner, ids[i]));
            if (!letter) continue;
            TRY_ASSIGN(problems[i], return_letter(handle, *letter, actor));
            ++counts[problems[i].empty() ? RetryResult::published : RetryResult::failed];
        }
        TRY(add_to_redrive(handle, owner, std::move(counts)));
        return problems;
    });
}

}  // namespace deliverd::store::sqlite
