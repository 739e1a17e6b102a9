#include "message/http_date.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

namespace deliverd {
namespace {

constexpr std::size_t kLongestDate = 40;

struct Parts {
    std::array<char, 4> month{};
    int year = 0;
    int day = 0;
    int hour = 0;
    int minute = 0;
    int second = 0;
    bool short_year = false;
};

/// The date fields of `text`, not yet checked for sense.
std::optional<Parts> split(const std::string& text) {
    Parts p;
    int end = -1;
    const auto whole = [&end, &text] { return end == static_cast<int>(text.size()); };
    std::sscanf(text.c_str(), "%*3[A-Za-z], %2d %3[A-Za-z] %4d %2d:%2d:%2d GMT%n", &p.day, p.month.data(), &p.year,
                &p.hour, &p.minute, &p.second, &end);
    if (whole()) return p;
    std::sscanf(text.c_str(), "%*3[A-Za-z] %3[A-Za-z] %2d %2d:%2d:%2d %4d%n", p.month.data(), &p.day, &p.hour,
                &p.minute, &p.second, &p.year, &end);
    if (whole()) return p;
    std::sscanf(text.c_str(), "%*9[A-Za-z], %2d-%3[A-Za-z]-%2d %2d:%2d:%2d GMT%n", &p.day, p.month.data(), &p.year,
                &p.hour, &p.minute, &p.second, &end);
    p.short_year = true;
    if (whole()) return p;
    return std::nullopt;
}

int full_year(int two_digits, WallTime now) {
    const std::chrono::year_month_day today(std::chrono::floor<std::chrono::days>(now));
    const int this_year = static_cast<int>(today.year());
    int year = this_year - this_year % 100 + two_digits;
    if (year > this_year + 50) year -= 100;
    if (year <= this_year - 50) year += 100;
    return year;
}

}  // namespace

std::optional<WallTime> parse_http_date(std::string_view text, WallTime now) {
    if (text.size() > kLongestDate) return std::nullopt;
    const auto parts = split(std::string(text));
    if (!parts) return std::nullopt;

    constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const auto month = std::find(kMonths.begin(), kMonths.end(), std::string_view(parts->month.data()));
    const auto in = [](int value, int low, int high) { return value >= low && value <= high; };
    if (month == kMonths.end() || !in(parts->day, 1, 31) || !in(parts->year, 0, 9999) || !in(parts->hour, 0, 23) ||
        !in(parts->minute, 0, 59) || !in(parts->second, 0, 60)) {
        return std::nullopt;
    }
    const std::chrono::year_month_day date(
        std::chrono::year(parts->short_year ? full_year(parts->year, now) : parts->year),
        std::chrono::month(static_cast<unsigned>(month - kMonths.begin()) + 1),
        std::chrono::day(static_cast<unsigned>(parts->day)));
    if (!date.ok()) return std::nullopt;
    return WallTime(std::chrono::sys_days(date)) + std::chrono::hours(parts->hour) +
           std::chrono::minutes(parts->minute) + std::chrono::seconds(parts->second);
}

}  // namespace deliverd
