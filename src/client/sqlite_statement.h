// A prepared statement of SQLite, and how its failures are named. Only for rooms that may include sqlite3.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/assert.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/try.h"
#include "deliverd/result.h"

namespace deliverd::client {

/// What the connection's last failure means, and what to do: `db_timeout` when another one holds the lock, `db_error`
/// otherwise. `path` is that of the file; empty: asks the connection, which knows it once it is open.
[[nodiscard]] Error sqlite_error(sqlite3* connection, int code, std::string path = {});

/// A value to be bound as bytes, not as text.
struct Blob {
    std::optional<std::string_view> bytes;
};

class SqliteStatement;
/// What `read` makes of a row.
template <typename Read>
using RowAs = std::invoke_result_t<Read&, const SqliteStatement&>;

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
        int code = SQLITE_ROW;
        while (code == SQLITE_ROW && (code = sqlite3_step(statement_.get())) == SQLITE_ROW) {
            if constexpr (std::is_same_v<RowAs<Read>, bool>) {
                if (!read(*this)) code = SQLITE_DONE;
            } else {
                read(*this);
            }
        }
        Result<void> done;
        if (code != SQLITE_DONE) done = Failure(sqlite_error(connection_, code));  // before the reset forgets it
        sqlite3_reset(statement_.get());
        return done;
    }

    /// What `read` makes of every row.
    template <typename Read, typename... Values>
    Result<std::vector<RowAs<Read>>> all(Read read, const Values&... values) {
        std::vector<RowAs<Read>> found;
        TRY(each([&](const SqliteStatement& row) { found.push_back(read(row)); }, values...));
        return found;
    }

    /// The same of the first row, if there is one.
    template <typename Read, typename... Values>
    Result<std::optional<RowAs<Read>>> one(Read read, const Values&... values) {
        std::optional<RowAs<Read>> found;
        const auto keep_first = [&](const SqliteStatement& row) {
            if (!found) found = read(row);
        };
        TRY(each(keep_first, values...));
        return found;
    }

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
            const bool null = sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
            return null ? T() : T(get<typename T::value_type>(column));
        } else if constexpr (std::is_same_v<T, bool>) {
            return sqlite3_column_int64(statement_.get(), column) != 0;
        } else if constexpr (std::is_integral_v<T>) {
            return static_cast<T>(sqlite3_column_int64(statement_.get(), column));
        } else if constexpr (std::is_floating_point_v<T>) {
            return sqlite3_column_double(statement_.get(), column);
        } else if constexpr (std::is_same_v<T, WallTime>) {
            return parse_rfc3339(text(column)).value_or(WallTime{});
        } else {
            return T(text(column));
        }
    }
    /// Valid until `read` returns.
    [[nodiscard]] std::string_view text(int column) const;

private:
    struct Finalize {
        void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
    };
    SqliteStatement(sqlite3* connection, sqlite3_stmt* statement) : connection_(connection), statement_(statement) {}

    template <typename... Values>
    Result<void> bind_all(const Values&... values) {
        const int last = sqlite3_bind_parameter_count(statement_.get());
        int code = SQLITE_OK;
        int index = 0;
        static_cast<void>(((++index > last || (code = bind(index, values)) == SQLITE_OK) && ...));
        if (code != SQLITE_OK) return Failure(sqlite_error(connection_, code));
        return {};
    }
    template <typename T>
    int bind(int index, const T& value) {
        if constexpr (std::is_integral_v<T>) {
            return sqlite3_bind_int64(statement_.get(), index, static_cast<std::int64_t>(value));
        } else {
            return bind_text(index, value);
        }
    }
    template <typename T>
    int bind(int index, const std::optional<T>& value) {
        return value ? bind(index, *value) : sqlite3_bind_null(statement_.get(), index);
    }
    template <typename... Types>
    int bind(int index, const std::variant<Types...>& value) {
        return std::visit([&](const auto& one) { return bind(index, one); }, value);
    }
    int bind(int index, const Blob& value);
    int bind(int index, std::nullopt_t) { return sqlite3_bind_null(statement_.get(), index); }
    int bind_text(int index, std::string_view text);

    sqlite3* connection_;
    std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

/// What a class can do with statements that has raw(), its connection, and prepared(sql): a Result of a pointer to a
/// statement that is ready to be bound. Rows and values are as for SqliteStatement.
template <typename Self>
class SqliteCalls {
public:
    template <typename Read, typename... Values>
    Result<void> each(std::string_view sql, Read read, const Values&... values) {
        TRY_ASSIGN(const auto statement, self().prepared(sql));
        return statement->each(read, values...);
    }
    template <typename Read, typename... Values>
    Result<std::vector<RowAs<Read>>> all(std::string_view sql, Read read, const Values&... values) {
        TRY_ASSIGN(const auto statement, self().prepared(sql));
        return statement->all(read, values...);
    }
    template <typename Read, typename... Values>
    Result<std::optional<RowAs<Read>>> one(std::string_view sql, Read read, const Values&... values) {
        TRY_ASSIGN(const auto statement, self().prepared(sql));
        return statement->one(read, values...);
    }
    /// The first column of every row; of the only row, if there is one.
    template <typename T, typename... Values>
    Result<std::vector<T>> values(std::string_view sql, const Values&... values) {
        return all(sql, [](const SqliteStatement& row) { return row.get<T>(); }, values...);
    }
    template <typename T, typename... Values>
    Result<std::optional<T>> value(std::string_view sql, const Values&... values) {
        return one(sql, [](const SqliteStatement& row) { return row.get<T>(); }, values...);
    }
    template <typename... Values>
    Result<void> run(std::string_view sql, const Values&... values) {
        TRY_ASSIGN(const auto statement, self().prepared(sql));
        return statement->run(values...);
    }
    /// How many rows an insert, update or delete changed.
    template <typename... Values>
    Result<std::int64_t> change(std::string_view sql, const Values&... values) {
        TRY(run(sql, values...));
        return sqlite3_changes(self().raw());
    }

private:
    friend Self;
    SqliteCalls() = default;
    Self& self() { return static_cast<Self&>(*this); }
};

/// Runs statements that answer nothing, separated by semicolons.
[[nodiscard]] Result<void> sqlite_run(sqlite3* connection, const std::string& sql);

}  // namespace deliverd::client
