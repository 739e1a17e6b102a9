// A prepared statement of SQLite, and how its failures are named. Only for rooms that may include sqlite3.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/assert.h"
#include "base/clock.h"
#include "base/try.h"
#include "deliverd/result.h"

namespace deliverd::client {

/// What the connection's last failure means: `db_timeout` when another one holds the lock, `db_error` otherwise.
[[nodiscard]] Error sqlite_error(sqlite3* connection, int code);

/// A value to be bound as bytes, not as text.
struct Blob {
    std::optional<std::string_view> bytes;
};

/// One thread at a time.
///
/// The calls that run it bind their `values` to ?1, ?2, … first: whole numbers, bools, text, a Blob, a variant of
/// these, or an optional (NULL when there is none). Values behind the statement's last parameter are left out, so that
/// statements that are put together from parts can share one list. Each value is used during the call only. Every call
/// steps to the end, because only then does SQLite commit what a statement outside a transaction did.
class SqliteStatement {
public:
    [[nodiscard]] static Result<SqliteStatement> prepare(sqlite3* connection, std::string_view sql);

    /// Drops the rows, if there are any.
    template <typename... Values>
    Result<void> run(const Values&... values) {
        return each([](const SqliteStatement&) {}, values...);
    }

    /// `read(const SqliteStatement& row)` for every row; when it answers false, the rest is left unread.
    template <typename Read, typename... Values>
    Result<void> each(Read read, const Values&... values) {
        TRY(bind_all(values...));
        for (;;) {
            TRY_ASSIGN(const bool more, step());
            if (!more) break;
            if constexpr (std::is_same_v<std::invoke_result_t<Read&, const SqliteStatement&>, bool>) {
                if (!read(*this)) break;
            } else {
                read(*this);
            }
        }
        reset();
        return {};
    }

    /// What `read` makes of every row.
    template <typename Read, typename... Values>
    auto all(Read read, const Values&... values)
        -> Result<std::vector<std::invoke_result_t<Read&, const SqliteStatement&>>> {
        std::vector<std::invoke_result_t<Read&, const SqliteStatement&>> found;
        TRY(each([&](const SqliteStatement& row) { found.push_back(read(row)); }, values...));
        return found;
    }

    /// The same of the first row, if there is one.
    template <typename Read, typename... Values>
    auto one(Read read, const Values&... values)
        -> Result<std::optional<std::invoke_result_t<Read&, const SqliteStatement&>>> {
        std::optional<std::invoke_result_t<Read&, const SqliteStatement&>> found;
        TRY(each(
            [&](const SqliteStatement& row) {
                if (!found) found = read(row);
            },
            values...));
        return found;
    }

    void reset();

    /// Cells of the present row, from the first column on, each as its target's type. NULL is none, 0 or "".
    template <typename... Targets>
    void read(Targets&... targets) const {
        read_from(0, targets...);
    }
    template <typename... Targets>
    void read_from(int column, Targets&... targets) const {
        ((targets = get<Targets>(column++)), ...);
    }
    /// One cell. Of a blob its bytes, as text. A time that cannot be read is the beginning of time.
    template <typename T>
    [[nodiscard]] T get(int column = 0) const {
        ASSERT(column < sqlite3_column_count(statement_.get()));
        if constexpr (requires { typename T::value_type; } && std::is_constructible_v<T, std::nullopt_t>) {
            return is_null(column) ? T() : T(get<typename T::value_type>(column));
        } else if constexpr (std::is_same_v<T, bool>) {
            return integer(column) != 0;
        } else if constexpr (std::is_integral_v<T>) {
            return static_cast<T>(integer(column));
        } else if constexpr (std::is_floating_point_v<T>) {
            return real(column);
        } else if constexpr (std::is_same_v<T, WallTime>) {
            return time(column);
        } else {
            return T(text(column));
        }
    }
    [[nodiscard]] bool is_null(int column) const;
    /// Valid until `read` returns.
    [[nodiscard]] std::string_view text(int column) const;

private:
    struct Finalize {
        void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
    };
    SqliteStatement(sqlite3* connection, sqlite3_stmt* statement) : connection_(connection), statement_(statement) {}

    template <typename... Values>
    Result<void> bind_all(const Values&... values) {
        int code = SQLITE_OK;
        int index = 0;
        static_cast<void>(((code = bind(++index, values), code == SQLITE_OK) && ...));
        if (code != SQLITE_OK) return Failure(sqlite_error(connection_, code));
        return {};
    }
    template <typename T>
    int bind(int index, const T& value) {
        if constexpr (std::is_integral_v<T>) {
            return bind_integer(index, static_cast<std::int64_t>(value));
        } else {
            return bind_text(index, value);
        }
    }
    template <typename T>
    int bind(int index, const std::optional<T>& value) {
        return value ? bind(index, *value) : bind(index, std::nullopt);
    }
    template <typename... Types>
    int bind(int index, const std::variant<Types...>& value) {
        return std::visit([&](const auto& one) { return bind(index, one); }, value);
    }
    int bind(int index, const Blob& value);
    int bind(int index, std::nullopt_t);
    int bind_integer(int index, std::int64_t value);
    int bind_text(int index, std::string_view text);
    [[nodiscard]] bool takes(int index) const;

    /// true: a row can be read; false: done.
    Result<bool> step();
    [[nodiscard]] std::int64_t integer(int column) const;
    [[nodiscard]] double real(int column) const;
    [[nodiscard]] WallTime time(int column) const;

    sqlite3* connection_;
    std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

/// Runs statements that answer nothing, separated by semicolons.
[[nodiscard]] Result<void> sqlite_run(sqlite3* connection, const std::string& sql);

}  // namespace deliverd::client
