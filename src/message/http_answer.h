// How an HTTP answer becomes an outcome: the table of docs/delivery.md as pure code.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "message/message.h"

namespace deliverd {

struct HttpAnswer {
    int status = 0;
    std::string_view body;         // as much of it as was read
    std::string_view retry_after;  // the header's value; empty when absent
};

/// `message_id` is the idempotency key we sent: a 409 counts as processed only when every `idempotency_key` in it is
/// ours or null, or there is none. `now` turns a Retry-After date into a wait.
[[nodiscard]] Outcome classify_http_answer(const HttpAnswer& answer, std::string_view message_id, WallTime now);

/// The first of `fields` that is a string or a number at the top level of a JSON object, if any.
[[nodiscard]] std::optional<std::string> find_receipt(std::string_view body, const std::vector<std::string>& fields);

/// A receiver cannot put a message off for longer than this.
inline constexpr std::chrono::hours kLongestRetryAfter{30 * 24};

/// Retry-After in seconds or as an HTTP date; none when unreadable or in the past, at most
/// kLongestRetryAfter.
[[nodiscard]] std::optional<Duration> parse_retry_after(std::string_view value, WallTime now);

}  // namespace deliverd
