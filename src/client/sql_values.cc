#include "client/sql_values.h"

#include <array>
#include <charconv>

namespace deliverd::client {
namespace {

/// The largest double has 309 digits before the point; places behind it come on top.
constexpr std::size_t kMaxDigits = 384;
constexpr int kPlaces = 3;  // SQLite's times have milliseconds

template <typename... Format>
std::string written(double value, Format... format) {
    std::array<char, kMaxDigits> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value, format...).ptr};
}

}  // namespace

std::string decimal(double value) {
    return written(value);
}

std::string time_ago(double seconds) {
    return "-" + written(seconds, std::chars_format::fixed, kPlaces) + " seconds";
}

std::string time_ahead(double seconds) {
    return "+" + written(seconds, std::chars_format::fixed, kPlaces) + " seconds";
}

}  // namespace deliverd::client
