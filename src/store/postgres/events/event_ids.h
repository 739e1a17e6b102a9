// Row ids as the database takes them.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

namespace deliverd::store::postgres {

[[nodiscard]] inline std::optional<std::int64_t> parse_number(const std::string& text) {
    std::int64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, fault] = std::from_chars(text.data(), end, number);
    if (fault != std::errc() || stop != end) return std::nullopt;
    return number;
}

}  // namespace deliverd::store::postgres
