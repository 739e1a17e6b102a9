// The header Retry-After.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "base/clock.h"

namespace deliverd {

/// A receiver cannot put a message off for longer than this.
inline constexpr std::chrono::hours kLongestRetryAfter{30 * 24};

/// Retry-After in seconds or as an HTTP date; none when unreadable or in the past, at most
/// kLongestRetryAfter.
[[nodiscard]] std::optional<Duration> parse_retry_after(std::string_view value, WallTime now);

}  // namespace deliverd
