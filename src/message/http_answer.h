// How an HTTP answer becomes an outcome: the table of docs/delivery.md as pure code.
#pragma once

#include <string_view>

#include "base/clock.h"
#include "message/answer.h"
#include "message/message.h"
#include "message/retry_after.h"

namespace deliverd {

/// `message_id` is the idempotency key we sent: a 409 counts as processed only when every `idempotency_key` in it is
/// ours or null, or there is none. `now` turns a Retry-After date into a wait.
[[nodiscard]] Outcome classify_http_answer(const HttpAnswer& answer, std::string_view message_id, WallTime now);

}  // namespace deliverd
