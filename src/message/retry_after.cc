#include "message/retry_after.h"

#include <time.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>

namespace deliverd {

namespace {

constexpr std::size_t kLongestDate = 40;

/// The whole of `text` by strptime(3)'s `format`.
bool read_date(const std::string& text, const char* format, std::tm& out) {
    out = {};
    const char* end = ::strptime(text.c_str(), format, &out);
    return end != nullptr && end == text.c_str() + text.size();
}

int full_year(int two_digits, WallTime now) {
    const std::chrono::year_month_day today(std::chrono::floor<std::chrono::days>(now));
    const int this_year = static_cast<int>(today.year());
    // RFC 9110, 5.6.7: a date that seems to be over 50 years ahead is in the past.
    int year = this_year - this_year % 100 + two_digits;
    if (year > this_year + 50) year -= 100;
    if (year <= this_year - 50) year += 100;
    return year;
}

}  // namespace

std::optional<WallTime> parse_http_date(std::string_view text, WallTime now) {
    if (text.size() > kLongestDate) return std::nullopt;
    const std::string ended(text);  // with the NUL that strptime() needs
    std::tm parts{};
    const bool short_year = read_date(ended, "%a, %d-%b-%y %H:%M:%S GMT", parts);
    if (!short_year && !read_date(ended, "%a, %d %b %Y %H:%M:%S GMT", parts) &&
        !read_date(ended, "%a %b %d %H:%M:%S %Y", parts)) {
        return std::nullopt;
    }
    const std::chrono::year_month_day date(
        std::chrono::year(short_year ? full_year(parts.tm_year % 100, now) : parts.tm_year + 1900),
        std::chrono::month(static_cast<unsigned>(parts.tm_mon) + 1),
        std::chrono::day(static_cast<unsigned>(parts.tm_mday)));
    if (!date.ok()) return std::nullopt;
    return WallTime(std::chrono::sys_days(date)) + std::chrono::hours(parts.tm_hour) +
           std::chrono::minutes(parts.tm_min) + std::chrono::seconds(parts.tm_sec);
}

std::optional<Duration> parse_retry_after(std::string_view value, WallTime now) {
    const std::size_t first = value.find_first_not_of(" \t");
    if (first == std::string_view::npos) return std::nullopt;
    value = value.substr(first, value.find_last_not_of(" \t") + 1 - first);

    // No sign and no fraction: RFC 9110 allows only digits here.
    if (value.find_first_not_of("0123456789") == std::string_view::npos) {
        constexpr std::int64_t kMost = std::chrono::seconds(kLongestRetryAfter).count();
        std::int64_t seconds = 0;
        const auto read = std::from_chars(value.data(), value.data() + value.size(), seconds);
        if (read.ec != std::errc()) seconds = kMost;  // only digits, so it was too many of them
        return std::chrono::seconds(std::min(seconds, kMost));
    }
    const auto date = parse_http_date(value, now);
    if (!date || *date < now) return std::nullopt;
    return std::min<std::chrono::microseconds>(*date - now, kLongestRetryAfter);  // nanoseconds would overflow
}

}  // namespace deliverd
