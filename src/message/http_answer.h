// How an HTTP answer becomes an outcome, as pure code: the tables of docs/delivery.md, and for the broker of orders
// that of docs/orders.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "message/message.h"
#include "message/retry_after.h"

namespace deliverd {

struct HttpAnswer {
    int status = 0;
    std::string_view body;         // the part that was read
    std::string_view retry_after;  // the header's value; empty when absent
};

/// How a 409 says that the order was processed before: anywhere in its JSON one of `fields` has the value `value` or a
/// string contains `text`; a body that is not JSON contains `text`. Directly after "not", `text` does not count. Case
/// does not matter; an empty `value` or `text` matches nothing.
struct ProcessedMatch {
    std::vector<std::string> fields{"code", "status"};
    std::string value = "already_processed";
    std::string text = "already processed";
};

/// `message_id` is the idempotency key we sent: a 409 counts as processed only when every `idempotency_key` in it is
/// ours or null, or there is none. `now` turns a Retry-After date into a wait.
[[nodiscard]] Outcome classify_http_answer(const HttpAnswer& answer, std::string_view message_id, WallTime now);

/// As classify_http_answer(), and beyond it:
///   - a 2xx is a delivery only when its body is a JSON object whose every `idempotency_key` is ours; without one, with
///     another one, unreadable or cut it is ambiguous, `UNKNOWN`: the broker may have the order;
///   - a delivery keeps the broker's answer with the digest of its canonical form (of its bytes if it has none, because
///     of numbers that no double holds), a processed conflict with kDigestFromConflict;
///   - a 409 is read by `match`; one that was cut, is broken JSON or names another key is `UNKNOWN`, not a refusal.
/// The receipt is the answer's `broker_order_id`, otherwise `id`. `body_cut`: only a part of the answer was read.
[[nodiscard]] Outcome classify_broker_answer(const HttpAnswer& answer, bool body_cut, std::string_view idempotency_key,
                                             const ProcessedMatch& match, WallTime now);

/// The first of `fields` that is a string or a number at the top level of a JSON object, if any. Empty strings, those
/// longer than 512 bytes and those with control characters (U+0000 to U+001F) are skipped.
[[nodiscard]] std::optional<std::string> find_receipt(std::string_view body, const std::vector<std::string>& fields);

}  // namespace deliverd
