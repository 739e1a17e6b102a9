#include "store/sqlite/letters/letter_retry.h"

#include <optional>
#include <utility>

#include "base/assert.h"
#include "base/try.h"
#include "base/uuid.h"
#include "client/sql_values.h"
#include "store/letter_rules.h"
#include "store/sqlite/letters/lane_letters.h"
#include "store/sqlite/letters/letter_rows.h"
#include "store/sqlite/letters/statements.h"

namespace deliverd::store::sqlite {
namespace {

std::optional<std::string> text_of(LetterStatus status) {
    return std::string(to_string(status));
}

Result<void> write_begin(Handle& handle, const std::string& id, const RetryRequest& request,
                         std::string_view redrive_began, bool died) {
    return handle.run(letters::sql::begin_retry, id, request.owner, client::time_ahead(request.lease), !died, died,
                      redrive_began);
}

Result<void> write_end(Handle& handle, const Letter& letter, const RetryEffect& effect, std::string_view actor,
                       const RetryEnd& end) {
    const std::string note = letter_note(end.detail);
    std::optional<std::string> error;
    if (end.result == RetryResult::not_tried) error = letter.last_retry_error;
    if (end.result == RetryResult::failed || end.result == RetryResult::in_doubt) error = note;
    TRY(handle.run(letters::sql::end_retry, letter.id, to_string(effect.status), effect.retry_count, effect.in_doubt,
                   error, effect.was_tried));
    return audit_letter(handle, letter.id,
                        {effect.action, actor, text_of(letter.status), text_of(effect.status),
                         note.empty() ? std::nullopt : std::optional<std::string>(note)});
}

Result<void> note_begin(Handle& handle, const Letter& before, std::string_view actor, bool died) {
    std::optional<std::string> why;
    if (died) why = "an earlier retry did not end: it may have been published";
    return audit_letter(handle, before.id, {"retry_begun", actor, text_of(before.status), "RETRYING", std::move(why)});
}

/// The letter, when its retry is the owner's.
Result<std::optional<Letter>> owned_letter(Handle& handle, std::string_view owner, std::string_view id) {
    TRY_ASSIGN(auto stored, stored_letter(handle, canonical_uuid(id)));
    if (!stored || stored->retry_owner != owner) return std::nullopt;
    return std::move(stored->detail.letter);
}

}  // namespace

Result<RetryClaim> begin_retry_of(Handle& handle, const std::string& id, const RetryRequest& request,
                                  std::string_view redrive_began) {
    RetryClaim claim{id};
    TRY_ASSIGN(auto stored, stored_letter(handle, canonical_uuid(id)));
    if (!stored) return claim;
    LetterDetail& detail = stored->detail;
    const std::string refusal = retry_refusal(detail.letter);
    const bool died = detail.letter.unfinished;
    claim.verdict = retry_verdict(detail.letter, refusal, stored->retry_is_live);
    claim.reason = retry_reason(claim.verdict, detail.letter, refusal);
    if (claim.verdict == RetryVerdict::begun) {
        TRY(write_begin(handle, detail.letter.id, request, redrive_began, died));
        if (redrive_began.empty() || died) {
            TRY(note_begin(handle, detail.letter, request.actor, died));
        }
        TRY_ASSIGN(stored, stored_letter(handle, detail.letter.id));
        ASSERT(stored);  // in the same transaction
        claim.taken_over = died;
    }
    claim.letter = std::move(stored->detail);
    return claim;
}

Result<bool> end_retry_of(Handle& handle, std::string_view owner, std::string_view actor, const RetryEnd& end) {
    TRY_ASSIGN(auto letter, owned_letter(handle, owner, end.id));
    if (!letter) return false;
    TRY(write_end(handle, *letter, retry_effect(*letter, end.result), actor, end));
    return true;
}

Result<LaneReturn> return_letter(Handle& handle, std::string_view owner, std::string_view actor,
                                 const std::string& id) {
    TRY_ASSIGN(auto letter, owned_letter(handle, owner, id));
    if (!letter) return LaneReturn{"its retry is not this one any more"};
    LaneReturn answer{"it is of no lane", true, letter->provenance.original_topic};
    if (letter->lane_row) {
        TRY_ASSIGN(auto problem, return_row(handle, *letter->lane_row, actor));
        answer.problem = std::move(problem);
    }
    const bool back = answer.problem.empty();
    const RetryEnd end{letter->id, back ? RetryResult::published : RetryResult::failed, answer.problem};
    RetryEffect effect = retry_effect(*letter, end.result);
    if (back) effect.action = "returned";
    TRY(write_end(handle, *letter, effect, actor, end));
    return answer;
}

}  // namespace deliverd::store::sqlite
