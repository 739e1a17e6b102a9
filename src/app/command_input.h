// What commands read from files and pipes.
#pragma once

#include <cstdint>
#include <istream>
#include <string>

namespace deliverd::app {

/// Reads one byte more than allowed at most, so that the refusal names a size without holding a huge input.
/// A stream that breaks on the way is bad() afterwards.
inline std::string read_bounded(std::istream& from, std::int64_t most) {
    std::string text(static_cast<std::size_t>(most) + 1, '\0');
    from.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(from.gcount()));
    return text;
}

}  // namespace deliverd::app
