#include "client/sqlite_statement.h"

namespace deliverd::client {
namespace {

std::string file_of(sqlite3* connection) {
    const char* path = sqlite3_db_filename(connection, "main");
    return path == nullptr || *path == '\0' ? "in memory" : path;
}

}  // namespace

Error sqlite_error(sqlite3* connection, int code) {
    const std::string where = "SQLite " + file_of(connection) + ": " + sqlite3_errmsg(connection);
    switch (code & 0xFF) {
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
            return {ErrorClass::retryable, "db_timeout", where + ": another connection holds it, try again"};
        case SQLITE_INTERRUPT:
        case SQLITE_PROTOCOL:  // lost too many races for the write-ahead log's locks
            return {ErrorClass::retryable, "db_timeout", where};
        case SQLITE_FULL:
            return {ErrorClass::retryable, "db_error", where + ": make room on the disk"};
        case SQLITE_IOERR:
        case SQLITE_NOMEM:
        case SQLITE_SCHEMA:  // somebody kept changing the schema while the statement was prepared
            return {ErrorClass::retryable, "db_error", where};
        case SQLITE_READONLY:
        case SQLITE_PERM:
        case SQLITE_CANTOPEN:
            return {ErrorClass::permanent, "db_error",
                    where + ": the file and its folder must be writable by this user"};
        case SQLITE_NOTADB:
        case SQLITE_CORRUPT:
            return {ErrorClass::permanent, "db_error",
                    where + ": not a SQLite database, or damaged; name another file or restore it"};
        default:
            break;
    }
    const std::string_view said = sqlite3_errmsg(connection);
    if (said.starts_with("no such table") || said.starts_with("no such index") || said.starts_with("no such column")) {
        return {ErrorClass::permanent, "db_error", where + ": the schema is missing or old, run `deliverd migrate`"};
    }
    return {ErrorClass::permanent, "db_error", where};
}

Result<SqliteStatement> SqliteStatement::prepare(sqlite3* connection, std::string_view sql) {
    sqlite3_stmt* statement = nullptr;
    const int code = sqlite3_prepare_v3(connection, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                        &statement, nullptr);
    if (code != SQLITE_OK) return Failure(sqlite_error(connection, code));
    return SqliteStatement(connection, statement);
}

SqliteStatement& SqliteStatement::bind(int index, std::int64_t value) {
    sqlite3_bind_int64(statement_.get(), index, value);
    return *this;
}

SqliteStatement& SqliteStatement::bind(int index, std::string_view text) {
    // An empty view may have no address, which SQLite would take for NULL.
    const char* data = text.data() == nullptr ? "" : text.data();
    sqlite3_bind_text64(statement_.get(), index, data, text.size(), SQLITE_STATIC, SQLITE_UTF8);
    return *this;
}

SqliteStatement& SqliteStatement::bind(int index, const std::optional<std::string>& text) {
    return text ? bind(index, std::string_view(*text)) : bind_null(index);
}

SqliteStatement& SqliteStatement::bind_blob(int index, const std::optional<std::string>& bytes) {
    if (!bytes) return bind_null(index);
    sqlite3_bind_blob64(statement_.get(), index, bytes->data(), bytes->size(), SQLITE_STATIC);
    return *this;
}

SqliteStatement& SqliteStatement::bind_null(int index) {
    sqlite3_bind_null(statement_.get(), index);
    return *this;
}

Result<bool> SqliteStatement::step() {
    const int code = sqlite3_step(statement_.get());
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) return false;
    Error error = sqlite_error(connection_, code);
    sqlite3_reset(statement_.get());
    return Failure(std::move(error));
}

Result<void> SqliteStatement::run() {
    for (;;) {
        auto row = step();
        if (!row) return Failure(std::move(row.error()));
        if (!*row) break;
    }
    reset();
    return {};
}

void SqliteStatement::reset() {
    sqlite3_reset(statement_.get());
}

bool SqliteStatement::is_null(int column) const {
    return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

std::int64_t SqliteStatement::integer(int column) const {
    return sqlite3_column_int64(statement_.get(), column);
}

double SqliteStatement::real(int column) const {
    return sqlite3_column_double(statement_.get(), column);
}

std::string_view SqliteStatement::text(int column) const {
    const unsigned char* data = sqlite3_column_text(statement_.get(), column);
    if (data == nullptr) return {};
    return {reinterpret_cast<const char*>(data),
            static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

std::optional<std::string> SqliteStatement::optional_text(int column) const {
    if (is_null(column)) return std::nullopt;
    return std::string(text(column));
}

Result<void> sqlite_run(sqlite3* connection, const std::string& sql) {
    const int code = sqlite3_exec(connection, sql.c_str(), nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) return Failure(sqlite_error(connection, code));
    return {};
}

}  // namespace deliverd::client
