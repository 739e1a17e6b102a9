// Text helpers that several rooms need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace deliverd {

// ASCII only, whatever the locale: protocols, identifiers and formats are written in it.
[[nodiscard]] constexpr bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
[[nodiscard]] constexpr bool is_upper(char c) {
    return c >= 'A' && c <= 'Z';
}
[[nodiscard]] constexpr bool is_lower(char c) {
    return c >= 'a' && c <= 'z';
}
[[nodiscard]] constexpr bool is_alphanumeric(char c) {
    return is_digit(c) || is_upper(c) || is_lower(c);
}
/// A printable character other than a space.
[[nodiscard]] constexpr bool is_visible(char c) {
    return c > ' ' && c < 127;
}
[[nodiscard]] constexpr char ascii_lower(char c) {
    return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
}
[[nodiscard]] std::string ascii_lower(std::string_view text);
[[nodiscard]] bool equal_ignoring_case(std::string_view a, std::string_view b);

/// The value of a hex digit in either case; none for any other character.
[[nodiscard]] constexpr std::optional<unsigned> hex_value(char c) {
    if (is_digit(c)) return static_cast<unsigned>(c - '0');
    const char lower = ascii_lower(c);
    if (lower >= 'a' && lower <= 'f') return static_cast<unsigned>(lower - 'a' + 10);
    return std::nullopt;
}
/// Two lower-case hex digits per byte.
[[nodiscard]] std::string hex_text(std::string_view bytes);

/// RFC 3986: keeps letters, digits and "-._~", and writes every other byte as %XX.
[[nodiscard]] std::string url_encoded(std::string_view text);
/// Keeps the characters that `plain` is true for instead.
[[nodiscard]] std::string percent_encoded(std::string_view text, bool (*plain)(char));
/// None where a "%" is not followed by two hex digits.
[[nodiscard]] std::optional<std::string> percent_decoded(std::string_view text);

/// Offset of the first byte that is not valid UTF-8 (overlong forms and surrogates are not), if any.
[[nodiscard]] std::optional<std::size_t> find_invalid_utf8(std::string_view bytes);

/// The characters of `text`, which must be UTF-8.
[[nodiscard]] std::size_t count_characters(std::string_view text);

/// `text`, cut between two characters when it is longer than `max_bytes`. "…" marks the cut and counts as part of
/// `max_bytes`.
[[nodiscard]] std::string shorten(std::string_view text, std::size_t max_bytes);

/// `bytes` as one line that every terminal, log and database accepts: control characters (C1, which steer terminals,
/// too) and line separators become spaces, bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string one_line(std::string_view bytes);

/// `bytes` with each byte that is not UTF-8 replaced by U+FFFD; the rest untouched.
[[nodiscard]] std::string valid_utf8(std::string_view bytes);

/// The candidate a person most likely meant (edit distance at most 3 and below half its length), if any.
[[nodiscard]] std::optional<std::string_view> nearest(std::string_view word,
                                                      std::span<const std::string_view> candidates);

/// 2026-02-20T10:30:00.123Z; only of the years 0000 to 9999.
[[nodiscard]] std::string rfc3339_millis(WallTime time);
/// 2026-02-20T10:30:00.123456Z; only of the years 0000 to 9999.
[[nodiscard]] std::string rfc3339_micros(WallTime time);

/// Milliseconds since 1970 from outside. None outside the years 0001 to 9999, which no text format can express.
[[nodiscard]] std::optional<WallTime> foreign_time(std::int64_t millis);

/// Reads RFC 3339 (`T` or space between date and time, `Z` or an offset, any number of fraction digits).
[[nodiscard]] std::optional<WallTime> parse_rfc3339(std::string_view text);

}  // namespace deliverd
