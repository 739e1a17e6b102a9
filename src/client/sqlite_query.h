// Statements of the protocols on the caller's SQLite connection: typed values in, typed rows out.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/try.h"
#include "client/protocol_rows.h"
#include "client/sqlite_statement.h"

namespace deliverd::client {

/// Values as for SqliteStatement. The connection outlives it.
class SqliteQuery {
public:
    explicit SqliteQuery(sqlite3* connection) : connection_(connection) {}

    /// How many rows it changed.
    template <typename... Values>
    Result<std::int64_t> change(std::string_view sql, const Values&... values) {
        TRY_ASSIGN(auto statement, SqliteStatement::prepare(connection_, sql));
        TRY(statement.run(values...));
        return sqlite3_changes(connection_);
    }
    /// The first cell of a statement that answers at most one row.
    template <typename T, typename... Values>
    Result<std::optional<T>> value(std::string_view sql, const Values&... values) {
        TRY_ASSIGN(auto statement, SqliteStatement::prepare(connection_, sql));
        return statement.one([](const SqliteStatement& row) { return row.get<T>(); }, values...);
    }
    template <typename T, typename... Values>
    Result<std::vector<T>> rows(std::string_view sql, const Values&... values) {
        TRY_ASSIGN(auto statement, SqliteStatement::prepare(connection_, sql));
        return statement.all(&row_as<T, SqliteStatement>, values...);
    }
    template <typename T, typename... Values>
    Result<std::optional<T>> row(std::string_view sql, const Values&... values) {
        TRY_ASSIGN(auto statement, SqliteStatement::prepare(connection_, sql));
        return statement.one(&row_as<T, SqliteStatement>, values...);
    }

    [[nodiscard]] sqlite3* connection() const { return connection_; }

private:
    sqlite3* connection_;
};

}  // namespace deliverd::client
