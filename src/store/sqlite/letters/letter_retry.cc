#include "store/sqlite/letters/letter_retry.h"

#include <optional>
#include <utility>

#include "base/uuid.h"
#include "store/letter_rules.h"
#include "store/sqlite/file/time_modifier.h"
#include "store/sqlite/letters/lane_letters.h"
#include "store/sqlite/letters/letter_rows.h"

namespace deliverd::store::sqlite {
namespace {

#define DELIVERD_NOW "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"

/// 1 letter, 2 owner, 3 the lease as a modifier, 4 how much it counts, 5 whether one before it may have been published,
/// 6 the earliest time it may have.
constexpr std::string_view kBegin =
    "update dlq_messages set status = 'RETRYING', retry_count = retry_count + ?4,"
    " retried_before_at = iif(?4, last_retry_at, retried_before_at), last_retry_at = max(?6, " DELIVERD_NOW
    "), updated_at = " DELIVERD_NOW
    ", retry_owner = ?2, in_doubt = in_doubt or ?5,"
    " retry_expires_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?3) where id = ?1";

/// 1 letter, 2 status, 3 count, 4 in doubt, 5 error or NULL, 6 whether it was tried.
constexpr std::string_view kEnd =
    "update dlq_messages set status = ?2, retry_count = ?3, in_doubt = ?4, last_retry_error = ?5,"
    " last_retry_at = iif(?6, last_retry_at, retried_before_at), retry_owner = null, retry_expires_at = null,"
    " updated_at = " DELIVERD_NOW " where id = ?1";

#undef DELIVERD_NOW

std::optional<std::string> text_of(LetterStatus status) {
    return std::string(to_string(status));
}

Result<void> write_begin(Handle& handle, const std::string& id, const RetryRequest& request,
                         std::string_view redrive_began, bool died) {
    auto statement = handle.prepared(kBegin);
    if (!statement) return Failure(std::move(statement.error()));
    const std::string lease = time_ahead(to_seconds(request.lease));
    (*statement)->bind(1, std::string_view(id)).bind(2, std::string_view(request.owner));
    (*statement)->bind(3, std::string_view(lease)).bind(4, std::int64_t{died ? 0 : 1});
    return (*statement)->bind(5, std::int64_t{died ? 1 : 0}).bind(6, redrive_began).run();
}

Result<void> write_end(Handle& handle, const Letter& letter, const RetryEffect& effect, std::string_view actor,
                       const RetryEnd& end) {
    auto statement = handle.prepared(kEnd);
    if (!statement) return Failure(std::move(statement.error()));
    const std::string note = letter_note(end.detail);
    std::optional<std::string> error;
    if (end.result == RetryResult::not_tried) error = letter.last_retry_error;
    if (end.result == RetryResult::failed || end.result == RetryResult::in_doubt) error = note;
    (*statement)->bind(1, std::string_view(letter.id)).bind(2, to_string(effect.status));
    (*statement)->bind(3, std::int64_t{effect.retry_count}).bind(4, std::int64_t{effect.in_doubt ? 1 : 0});
    (*statement)->bind(5, error).bind(6, std::int64_t{effect.was_tried ? 1 : 0});
    if (auto done = (*statement)->run(); !done) return done;
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
    auto stored = stored_letter(handle, canonical_uuid(id));
    if (!stored) return Failure(std::move(stored.error()));
    if (!*stored || (*stored)->retry_owner != owner) return std::nullopt;
    return std::move((*stored)->detail.letter);
}

}  // namespace

Result<RetryClaim> begin_retry_of(Handle& handle, const std::string& id, const RetryRequest& request,
                                  std::string_view redrive_began) {
    RetryClaim claim{id};
    auto stored = stored_letter(handle, canonical_uuid(id));
    if (!stored) return Failure(std::move(stored.error()));
    if (!*stored) return claim;
    LetterDetail& detail = (*stored)->detail;
    const std::string refusal = retry_refusal(detail.letter);
    const bool died = detail.letter.unfinished;
    claim.verdict = retry_verdict(detail.letter, refusal, (*stored)->retry_is_live);
    claim.reason = retry_reason(claim.verdict, detail.letter, refusal);
    if (claim.verdict == RetryVerdict::begun) {
        auto begun = write_begin(handle, detail.letter.id, request, redrive_began, died);
        if (!begun) return Failure(std::move(begun.error()));
        if (redrive_began.empty() || died) {
            auto noted = note_begin(handle, detail.letter, request.actor, died);
            if (!noted) return Failure(std::move(noted.error()));
        }
        stored = stored_letter(handle, detail.letter.id);
        if (!stored) return Failure(std::move(stored.error()));
        claim.taken_over = died;
    }
    claim.letter = std::move((*stored)->detail);
    return claim;
}

Result<bool> end_retry_of(Handle& handle, std::string_view owner, std::string_view actor, const RetryEnd& end) {
    auto letter = owned_letter(handle, owner, end.id);
    if (!letter) return Failure(std::move(letter.error()));
    if (!*letter) return false;
    auto done = write_end(handle, **letter, retry_effect(**letter, end.result), actor, end);
    if (!done) return Failure(std::move(done.error()));
    return true;
}

Result<LaneReturn> return_letter(Handle& handle, std::string_view owner, std::string_view actor,
                                 const std::string& id) {
    auto letter = owned_letter(handle, owner, id);
    if (!letter) return Failure(std::move(letter.error()));
    if (!*letter) return LaneReturn{"its retry is not this one any more"};
    LaneReturn answer{"it is of no lane", true, (*letter)->provenance.original_topic};
    if ((*letter)->lane_row) {
        auto problem = return_row(handle, *(*letter)->lane_row, actor);
        if (!problem) return Failure(std::move(problem.error()));
        answer.problem = std::move(*problem);
    }
    const bool back = answer.problem.empty();
    const RetryEnd end{(*letter)->id, back ? RetryResult::published : RetryResult::failed, answer.problem};
    RetryEffect effect = retry_effect(**letter, end.result);
    if (back) effect.action = "returned";
    if (auto done = write_end(handle, **letter, effect, actor, end); !done) return Failure(std::move(done.error()));
    return answer;
}

}  // namespace deliverd::store::sqlite
