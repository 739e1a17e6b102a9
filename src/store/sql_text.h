// Putting statements together.
#pragma once

#include <string>
#include <string_view>

namespace deliverd::store {

/// `name` as SQL takes it whatever it contains.
[[nodiscard]] std::string quoted(std::string_view name);

/// The same for "table" and "schema.table".
[[nodiscard]] std::string quoted_table(std::string_view table);

/// `text` with each `what` replaced.
[[nodiscard]] std::string replaced(std::string text, std::string_view what, std::string_view with);

}  // namespace deliverd::store
