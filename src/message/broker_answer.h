// How an order broker's HTTP answer becomes an outcome: the table of docs/orders.md as pure code.
#pragma once

#include <string_view>

#include "base/clock.h"
#include "message/answer.h"
#include "message/message.h"

namespace deliverd {

/// As classify_http_answer(), and beyond it:
///   - a 2xx is a delivery only when its body is a JSON object whose every `idempotency_key` is ours; without one, with
///     another one, unreadable or cut it is ambiguous, `UNKNOWN`: the broker may have the order;
///   - a delivery keeps the broker's answer with the digest of its canonical form (of its bytes if it has none, because
///     of numbers that no double holds), a processed conflict with kDigestFromConflict;
///   - a 409 is read by `match`; one that was cut, is broken JSON or names another key is `UNKNOWN`, not a refusal.
/// The receipt is the answer's `broker_order_id`, otherwise `id`. `body_cut`: only a part of the answer was read.
[[nodiscard]] Outcome classify_broker_answer(const HttpAnswer& answer, bool body_cut, std::string_view idempotency_key,
                                             const ProcessedMatch& match, WallTime now);

}  // namespace deliverd
