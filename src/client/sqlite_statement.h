// A prepared statement of SQLite, and how its failures are named. Only for rooms that may include sqlite3.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "deliverd/result.h"

namespace deliverd::client {

/// What the connection's last failure means: `db_timeout` when another one holds the lock, `db_error` otherwise.
[[nodiscard]] Error sqlite_error(sqlite3* connection, int code);

/// Bound text must outlive the step. One thread at a time.
class SqliteStatement {
public:
    [[nodiscard]] static Result<SqliteStatement> prepare(sqlite3* connection, std::string_view sql);

    SqliteStatement& bind(int index, std::int64_t value);
    SqliteStatement& bind(int index, std::string_view text);
    SqliteStatement& bind(int index, const std::optional<std::string>& text);
    SqliteStatement& bind_blob(int index, const std::optional<std::string>& bytes);
    SqliteStatement& bind_null(int index);

    /// true: a row can be read; false: done.
    Result<bool> step();
    /// Steps to the end and resets.
    Result<void> run();
    void reset();

    [[nodiscard]] bool is_null(int column) const;
    [[nodiscard]] std::int64_t integer(int column) const;
    [[nodiscard]] double real(int column) const;
    /// Of a blob its bytes. Valid until the next step or reset.
    [[nodiscard]] std::string_view text(int column) const;
    [[nodiscard]] std::optional<std::string> optional_text(int column) const;

private:
    struct Finalize {
        void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
    };
    SqliteStatement(sqlite3* connection, sqlite3_stmt* statement) : connection_(connection), statement_(statement) {}

    sqlite3* connection_;
    std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

/// Runs statements that answer nothing, separated by semicolons.
[[nodiscard]] Result<void> sqlite_run(sqlite3* connection, const std::string& sql);

}  // namespace deliverd::client
