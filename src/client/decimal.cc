#include "client/decimal.h"

#include <array>
#include <charconv>

namespace deliverd::client {
namespace {

/// The largest double has 309 digits before the point; `places` come on top.
constexpr std::size_t kMaxDigits = 384;

}  // namespace

std::string decimal(double value) {
    std::array<char, kMaxDigits> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    return {text.data(), end};
}

std::string decimal(double value, int places) {
    std::array<char, kMaxDigits> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, places).ptr;
    return {text.data(), end};
}

}  // namespace deliverd::client
