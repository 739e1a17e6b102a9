// Is a text JSON that both databases store? Without making anything of it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace deliverd {

/// Deeper nesting is refused: SQLite ends at 2000, and a receiver's parser earlier.
inline constexpr std::size_t kMaxCheckedJsonDepth = 512;

enum class JsonKind { any, object };

/// Why `text` is not JSON (of that kind), with the offset; nothing when it is. Stricter than RFC 8259 in three things:
/// the text is UTF-8, no string holds U+0000 (PostgreSQL's jsonb refuses it), and the nesting is bounded. Numbers may
/// be of any size, but for exponents beyond 2^31.
[[nodiscard]] std::optional<std::string> json_problem(std::string_view text, JsonKind kind);

/// By so much numbers may make a text longer where they are written without exponents, as PostgreSQL's jsonb does:
/// 1e9000 is a one and 9,000 zeros there.
inline constexpr std::size_t kMaxSwellingBytes = 64UL * 1024;

/// JSON of any kind that jsonb shows at about its length.
[[nodiscard]] bool is_compact_json(std::string_view text);

}  // namespace deliverd
