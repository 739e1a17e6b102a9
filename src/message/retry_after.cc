#include "message/retry_after.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "message/http_date.h"

namespace deliverd {

std::optional<Duration> parse_retry_after(std::string_view value, WallTime now) {
    const std::size_t first = value.find_first_not_of(" \t");
    if (first == std::string_view::npos) return std::nullopt;
    value = value.substr(first, value.find_last_not_of(" \t") + 1 - first);

    if (value.find_first_not_of("0123456789") == std::string_view::npos) {
        constexpr std::int64_t kMost = std::chrono::seconds(kLongestRetryAfter).count();
        std::int64_t seconds = 0;
        const auto read = std::from_chars(value.data(), value.data() + value.size(), seconds);
        if (read.ec != std::errc()) seconds = kMost;  // digits only, so it was too many of them
        return std::chrono::seconds(std::min(seconds, kMost));
    }
    const auto date = parse_http_date(value, now);
    if (!date || *date < now) return std::nullopt;
    return std::min<std::chrono::microseconds>(*date - now, kLongestRetryAfter);  // nanoseconds would overflow
}

}  // namespace deliverd
