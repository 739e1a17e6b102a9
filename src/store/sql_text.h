// Putting statements together.
#pragma once

#include <initializer_list>
#include <map>
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

/// Values for filled() that several statements share.
class SqlValues {
public:
    /// Inserted as it is.
    void set(std::string_view name, std::string value) {
        values_.insert_or_assign(std::string(name), std::move(value));
    }
    /// `text` may use the names that are known already.
    void define(std::string_view name, std::string_view text) { set(name, fill(text)); }
    [[nodiscard]] std::string fill(std::string_view statement) const;

private:
    std::map<std::string, std::string, std::less<>> values_;
};

/// `text` with each `what` replaced.
[[nodiscard]] std::string replaced(std::string text, std::string_view what, std::string_view with);

}  // namespace deliverd::store
