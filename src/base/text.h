// Small text helpers that several rooms need.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace deliverd {

/// Offset of the first byte that is not valid UTF-8 (overlong forms and surrogates are not), if any.
[[nodiscard]] std::optional<std::size_t> find_invalid_utf8(std::string_view bytes);

/// `text`, cut at a character boundary where it is longer than `max_bytes`; "…" stands for what was cut and
/// counts towards `max_bytes`.
[[nodiscard]] std::string shorten(std::string_view text, std::size_t max_bytes);

/// `bytes` as one line that any terminal, log and database takes: control characters (C1, which steer terminals, too)
/// and line separators become spaces, bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string one_line(std::string_view bytes);

/// `bytes` with each byte that is not UTF-8 replaced by U+FFFD; the rest untouched.
[[nodiscard]] std::string valid_utf8(std::string_view bytes);

/// The candidate a person most likely meant (edit distance at most 3 and below half its length), if any.
[[nodiscard]] std::optional<std::string_view> nearest(std::string_view word,
                                                      std::span<const std::string_view> candidates);

/// 2026-02-20T10:30:00.123Z; only of the years 0000 to 9999.
[[nodiscard]] std::string rfc3339_millis(WallTime time);

/// Milliseconds since 1970 that somebody else wrote. None outside the years 0001 to 9999, which no format can say.
[[nodiscard]] std::optional<WallTime> foreign_time(std::int64_t millis);

/// Reads RFC 3339 (`T` or space between date and time, `Z` or an offset, any number of fraction digits).
[[nodiscard]] std::optional<WallTime> parse_rfc3339(std::string_view text);

}  // namespace deliverd
