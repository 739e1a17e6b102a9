// One JSON object as its members, each as it is written: what is not changed goes out byte by byte. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "deliverd/result.h"

namespace deliverd::spool {

inline constexpr std::size_t kMaxJsonDepth = 512;

/// Views into the text that was split.
struct Member {
    std::string_view name;   // with its quotes
    std::string_view value;  // without white space around it
};
using Members = std::vector<Member>;

/// The failure of a line that cannot be read.
[[nodiscard]] Failure unreadable(const std::string& why);

/// Failure (permanent, `unreadable`): `text` is not one JSON object in UTF-8, and nothing else; says why and where.
[[nodiscard]] Result<Members> split_object(std::string_view text);

/// Why `text` is not one JSON value, if it is none.
[[nodiscard]] std::optional<std::string> json_fault(std::string_view text);

/// The last one of that name, as JavaScript reads it; null when there is none.
[[nodiscard]] const Member* find_member(const Members& members, std::string_view name);

/// What a JSON string says; none where `raw` is no string. Half of a surrogate pair becomes U+FFFD.
[[nodiscard]] std::optional<std::string> string_of(std::string_view raw);
/// None where `raw` is no number.
[[nodiscard]] std::optional<double> number_of(std::string_view raw);

/// A member's new value as JSON; empty removes it.
using NewValues = std::vector<std::pair<std::string_view, std::string>>;

/// The object with those members replaced where they stand, or added behind the others.
[[nodiscard]] std::string with_values(const Members& members, const NewValues& values);

}  // namespace deliverd::spool
