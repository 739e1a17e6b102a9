// Putting statements together.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace deliverd::store {

/// `name` as SQL takes it whatever it contains.
[[nodiscard]] std::string quoted(std::string_view name);

/// The same for "table" and "schema.table".
[[nodiscard]] std::string quoted_table(std::string_view table);

/// A statement from a .sql file with each `{name}` replaced by the value of that name, which is inserted as it is:
/// names of tables and columns go through quoted() first. Asserts that each name has a value. `{}` stays.
[[nodiscard]] std::string filled(std::string_view statement,
                                 std::initializer_list<std::pair<std::string_view, std::string_view>> values);

/// `text` with each `what` replaced.
[[nodiscard]] std::string replaced(std::string text, std::string_view what, std::string_view with);

}  // namespace deliverd::store
