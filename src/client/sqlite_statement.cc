#include "client/sqlite_statement.h"

#include "base/text.h"

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
            return {ErrorClass::retryable, codes::kDbTimeout, where + ": another connection holds it, try again"};
        case SQLITE_INTERRUPT:
        case SQLITE_PROTOCOL:  // lost too many races for the write-ahead log's locks
            return {ErrorClass::retryable, codes::kDbTimeout, where};
        case SQLITE_FULL:
            return {ErrorClass::retryable, codes::kDbError, where + ": make room on the disk"};
        case SQLITE_IOERR:
        case SQLITE_NOMEM:
        case SQLITE_SCHEMA:  // somebody kept changing the schema while the statement was prepared
            return {ErrorClass::retryable, codes::kDbError, where};
        case SQLITE_READONLY:
        case SQLITE_PERM:
        case SQLITE_CANTOPEN:
            return {ErrorClass::permanent, codes::kDbError,
                    where + ": the file and its folder must be writable by this user"};
        case SQLITE_NOTADB:
        case SQLITE_CORRUPT:
            return {ErrorClass::permanent, codes::kDbError,
                    where + ": not a SQLite database, or damaged; name another file or restore it"};
        default:
            break;
    }
    const std::string_view said = sqlite3_errmsg(connection);
    if (said.starts_with("no such table") || said.starts_with("no such index") || said.starts_with("no such column")) {
        return {ErrorClass::permanent, codes::kDbError,
                where + ": the schema is missing or old, run `deliverd migrate`"};
    }
    return {ErrorClass::permanent, codes::kDbError, where};
}

Result<SqliteStatement> SqliteStatement::prepare(sqlite3* connection, std::string_view sql) {
    sqlite3_stmt* statement = nullptr;
    const int code = sqlite3_prepare_v3(connection, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                        &statement, nullptr);
    if (code != SQLITE_OK) return Failure(sqlite_error(connection, code));
    return SqliteStatement(connection, statement);
}

bool SqliteStatement::takes(int index) const {
    return index <= sqlite3_bind_parameter_count(statement_.get());
}

int SqliteStatement::bind_integer(int index, std::int64_t value) {
    return takes(index) ? sqlite3_bind_int64(statement_.get(), index, value) : SQLITE_OK;
}

int SqliteStatement::bind_text(int index, std::string_view text) {
    if (!takes(index)) return SQLITE_OK;
    // An empty view may have no address, which SQLite would take for NULL.
    const char* data = text.data() == nullptr ? "" : text.data();
    return sqlite3_bind_text64(statement_.get(), index, data, text.size(), SQLITE_STATIC, SQLITE_UTF8);
}

int SqliteStatement::bind(int index, const Blob& value) {
    if (!value.bytes) return bind(index, std::nullopt);
    if (!takes(index)) return SQLITE_OK;
    if (value.bytes->empty()) return sqlite3_bind_zeroblob(statement_.get(), index, 0);
    return sqlite3_bind_blob64(statement_.get(), index, value.bytes->data(), value.bytes->size(), SQLITE_STATIC);
}

int SqliteStatement::bind(int index, std::nullopt_t) {
    return takes(index) ? sqlite3_bind_null(statement_.get(), index) : SQLITE_OK;
}

Result<bool> SqliteStatement::step() {
    const int code = sqlite3_step(statement_.get());
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) return false;
    Error error = sqlite_error(connection_, code);
    sqlite3_reset(statement_.get());
    return Failure(std::move(error));
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

WallTime SqliteStatement::time(int column) const {
    return parse_rfc3339(text(column)).value_or(WallTime{});
}

Result<void> sqlite_run(sqlite3* connection, const std::string& sql) {
    const int code = sqlite3_exec(connection, sql.c_str(), nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) return Failure(sqlite_error(connection, code));
    return {};
}

}  // namespace deliverd::client
