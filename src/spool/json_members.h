// One JSON object as its members, so that a change keeps the other members byte for byte. Pure.
// JavaScript writes spools too: halves of surrogate pairs and duplicate keys are read as JavaScript reads them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_reader.h"
#include "deliverd/result.h"

namespace deliverd::spool {

using Members = std::vector<JsonMember>;

/// The failure for a line that cannot be read.
[[nodiscard]] Failure unreadable(const std::string& why);

/// Failure (permanent, `unreadable`): why and where `text` is not exactly one JSON object in UTF-8.
[[nodiscard]] Result<Members> split_object(std::string_view text);

/// Why `text` is not one JSON value; none if it is.
[[nodiscard]] std::optional<std::string> json_fault(std::string_view text);

/// The last member with that name, which is the one that JavaScript reads; null if there is none.
[[nodiscard]] const JsonMember* find_member(const Members& members, std::string_view name);

/// The text of the JSON string `raw`; none if it is not a string. Half of a surrogate pair becomes U+FFFD.
[[nodiscard]] std::optional<std::string> string_of(std::string_view raw);
/// None if `raw` is not a number.
[[nodiscard]] std::optional<double> number_of(std::string_view raw);

/// A member's new value as JSON; empty removes it.
using NewValues = std::vector<std::pair<std::string_view, std::string>>;

/// The object with these members replaced in place, or added at the end.
[[nodiscard]] std::string with_values(const Members& members, const NewValues& values);

}  // namespace deliverd::spool
