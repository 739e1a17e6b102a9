// How a fuzz target says that a property does not hold.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace deliverd::fuzz {

/// Ends the program, which libFuzzer reports as a crash with its input, where `holds` is false.
inline void require(bool holds, std::string_view property) {
    if (holds) return;
    std::fprintf(stderr, "property does not hold: %.*s\n", static_cast<int>(property.size()), property.data());
    std::abort();
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

}  // namespace deliverd::fuzz
