// Is a text JSON that both databases store?
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace deliverd {

enum class JsonKind { any, object };

/// Why `text` is not JSON of that kind, with the byte; none when it is. Stricter than RFC 8259: the text is UTF-8, no
/// string holds U+0000 (PostgreSQL's jsonb refuses it), no exponent is beyond 2^31, and the nesting is at most
/// kMaxJsonDepth.
[[nodiscard]] std::optional<std::string> json_problem(std::string_view text, JsonKind kind);

/// A text may become longer by at most this when its numbers are written without exponents, as PostgreSQL's jsonb does:
/// 1e9000 is a one and 9,000 zeros there.
inline constexpr std::size_t kMaxSwellingBytes = 64UL * 1024;

/// JSON of any kind that jsonb shows at about its length.
[[nodiscard]] bool is_compact_json(std::string_view text);

}  // namespace deliverd
