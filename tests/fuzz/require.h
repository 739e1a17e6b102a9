// Lets a fuzz target report that a property does not hold.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace deliverd::fuzz {

/// Ends the program if `holds` is false. libFuzzer then reports a crash with its input.
inline void require(bool holds, std::string_view property) {
    if (holds) return;
    std::fprintf(stderr, "property does not hold: %.*s\n", static_cast<int>(property.size()), property.data());
    std::abort();
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

}  // namespace deliverd::fuzz
