// Statements of the protocols on the caller's SQLite connection: typed values in, typed rows out.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/try.h"
#include "client/protocol_rows.h"
#include "client/sqlite_statement.h"

namespace deliverd::client {

/// Prepares each statement anew: a statement that is kept would keep the caller from closing the connection. The
/// connection outlives it.
class SqliteQuery : public SqliteCalls<SqliteQuery> {
public:
    explicit SqliteQuery(sqlite3* connection) : connection_(connection) {}

    template <typename T, typename... Values>
    Result<std::vector<T>> rows(std::string_view sql, const Values&... values) {
        return all(sql, &row_as<T, SqliteStatement>, values...);
    }
    template <typename T, typename... Values>
    Result<std::optional<T>> row(std::string_view sql, const Values&... values) {
        return one(sql, &row_as<T, SqliteStatement>, values...);
    }

    [[nodiscard]] Result<std::unique_ptr<SqliteStatement>> prepared(std::string_view sql) const {
        TRY_ASSIGN(auto statement, SqliteStatement::prepare(connection_, sql));
        return std::make_unique<SqliteStatement>(std::move(statement));
    }
    [[nodiscard]] sqlite3* raw() const { return connection_; }

private:
    sqlite3* connection_;
};

}  // namespace deliverd::client
