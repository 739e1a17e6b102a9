// What commands read from files and pipes.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <string_view>

#include "app/command.h"
#include "deliverd/result.h"

namespace deliverd::app {

/// A payload that is read from a file or a pipe.
inline constexpr std::int64_t kMaxPayloadInputBytes = std::int64_t{16} << 20;

/// Reads one byte more than allowed at most, so that the refusal names a size without holding a huge input.
/// A stream that breaks on the way is bad() afterwards.
inline std::string read_bounded(std::istream& from, std::int64_t most) {
    std::string text(static_cast<std::size_t>(most) + 1, '\0');
    from.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(from.gcount()));
    return text;
}

/// JSON itself, @FILE, or - (also @-) for standard input. No JSON begins with either. Failure: `bad_argument`, naming
/// the flag.
[[nodiscard]] Result<std::string> payload_text(const Context& context, std::string_view flag,
                                               const std::string& payload);

}  // namespace deliverd::app
