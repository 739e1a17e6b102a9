#include "client/sqlite_statement.h"

namespace deliverd::client {
namespace {

std::string file_of(sqlite3* connection) {
    const char* path = sqlite3_db_filename(connection, "main");
    return path == nullptr || *path == '\0' ? "in memory" : path;
}

}  // namespace

Error sqlite_error(sqlite3* connection, int code, std::string path) {
    const std::string_view said = sqlite3_errmsg(connection);
    const auto error = [&](ErrorClass error_class, const char* name, std::string_view advice = {}) {
        if (path.empty()) path = file_of(connection);
        return Error{error_class, name,
                     "SQLite " + path + ": " + std::string(said) + (advice.empty() ? "" : ": ") + std::string(advice)};
    };
    switch (code & 0xFF) {
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
            return error(ErrorClass::retryable, codes::kDbTimeout, "another connection holds it, try again");
        case SQLITE_INTERRUPT:
        case SQLITE_PROTOCOL:  // lost too many races for the write-ahead log's locks
            return error(ErrorClass::retryable, codes::kDbTimeout);
        case SQLITE_FULL:
            return error(ErrorClass::retryable, codes::kDbError, "make room on the disk");
        case SQLITE_IOERR:
        case SQLITE_NOMEM:
        case SQLITE_SCHEMA:  // somebody kept changing the schema while the statement was prepared
            return error(ErrorClass::retryable, codes::kDbError);
        case SQLITE_READONLY:
        case SQLITE_PERM:
        case SQLITE_CANTOPEN:
            return error(ErrorClass::permanent, codes::kDbError,
                         "the folder must exist, and it and the file must be writable by this user");
        case SQLITE_NOTADB:
        case SQLITE_CORRUPT:
            return error(ErrorClass::permanent, codes::kDbError,
                         "not a SQLite database, or damaged; name another file or restore it");
        default:
            break;
    }
    // SQLITE_ERROR is everything else, and only its text says what.
    if (said.starts_with("no such table") || said.starts_with("no such index") || said.starts_with("no such column")) {
        return error(ErrorClass::permanent, codes::kDbError, "the schema is missing or old, run `deliverd migrate`");
    }
    return error(ErrorClass::permanent, codes::kDbError);
}

Result<SqliteStatement> SqliteStatement::prepare(sqlite3* connection, std::string_view sql) {
    sqlite3_stmt* statement = nullptr;
    // Persistent: the store keeps its statements for as long as the connection, whose lookaside memory is for short
    // uses.
    const int code = sqlite3_prepare_v3(connection, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                        &statement, nullptr);
    if (code != SQLITE_OK) return Failure(sqlite_error(connection, code));
    return SqliteStatement(connection, statement);
}

int SqliteStatement::bind_text(int index, std::string_view text) {
    // An empty view may have no address, which SQLite would take for NULL.
    const char* data = text.data() == nullptr ? "" : text.data();
    return sqlite3_bind_text64(statement_.get(), index, data, text.size(), SQLITE_STATIC, SQLITE_UTF8);
}

int SqliteStatement::bind(int index, const Blob& value) {
    if (!value.bytes) return bind(index, std::nullopt);
    // An empty view may have no address, which bind_blob64() would take for NULL.
    if (value.bytes->empty()) return sqlite3_bind_zeroblob(statement_.get(), index, 0);
    return sqlite3_bind_blob64(statement_.get(), index, value.bytes->data(), value.bytes->size(), SQLITE_STATIC);
}

std::string_view SqliteStatement::text(int column) const {
    const unsigned char* data = sqlite3_column_text(statement_.get(), column);
    if (data == nullptr) return {};
    return {reinterpret_cast<const char*>(data),
            static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

Result<void> sqlite_run(sqlite3* connection, const std::string& sql) {
    const int code = sqlite3_exec(connection, sql.c_str(), nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) return Failure(sqlite_error(connection, code));
    return {};
}

}  // namespace deliverd::client
