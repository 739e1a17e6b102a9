// The header Retry-After, and dates as HTTP headers write them (RFC 9110, 5.6.7).
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "base/clock.h"

namespace deliverd {

/// A receiver cannot defer a message for longer than this.
inline constexpr std::chrono::hours kLongestRetryAfter{30 * 24};

/// Retry-After in seconds or as an HTTP date; none when unreadable or in the past, at most
/// kLongestRetryAfter.
[[nodiscard]] std::optional<Duration> parse_retry_after(std::string_view value, WallTime now);

/// Reads the three forms: `Sun, 06 Nov 1994 08:49:37 GMT`, RFC 850's and asctime's. A year of two digits is the one
/// that is at most 50 years after `now`. The weekday need not fit the date.
[[nodiscard]] std::optional<WallTime> parse_http_date(std::string_view text, WallTime now);

}  // namespace deliverd
