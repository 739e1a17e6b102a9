#include "message/http_answer.h"

#include "message/answer_parts.h"

namespace deliverd {

Outcome classify_http_answer(const HttpAnswer& answer, std::string_view message_id, WallTime now) {
    Conflict conflict = Conflict::plain;
    if (answer.status == 409) conflict = read_conflict(answer.body, message_id, ProcessedMatch{});
    // Any receiver's 409 is a refusal unless it speaks of a delivery.
    if (conflict == Conflict::unclear) conflict = Conflict::plain;
    return classify_status(answer, conflict, now);
}

}  // namespace deliverd
