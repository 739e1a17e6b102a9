#include "store/sqlite/file/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "store/sqlite/file/row_values.h"

namespace deliverd::store::sqlite {
namespace {

/// SQLite would create it with what the umask leaves of 0644. It gives -wal and -shm the file's own permissions. What
/// fails here fails in SQLite as well, which says why.
void create_private(const std::string& path) {
    const int made = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (made >= 0) ::close(made);
}

}  // namespace

int Handle::on_busy(void* self, int tries) {
    // SQLite's own pauses: short at first, since most locks are held for less than a millisecond.
    constexpr std::array<int, 8> kPausesMs = {1, 2, 5, 10, 15, 20, 25, 50};
    Handle& handle = *static_cast<Handle*>(self);
    const auto now = std::chrono::steady_clock::now();
    if (tries == 0) handle.busy_until_ = now + handle.busy_timeout_;
    const auto left = handle.limit_.cap(handle.busy_until_) - now;
    if (left <= left.zero()) return 0;
    const auto pause = kPausesMs[std::min(static_cast<std::size_t>(tries), kPausesMs.size() - 1)];
    sqlite3_sleep(
        static_cast<int>(std::min<long long>(pause, std::chrono::ceil<std::chrono::milliseconds>(left).count())));
    return 1;
}

Result<std::unique_ptr<Handle>> Handle::open(const std::string& path, Duration busy_timeout, const WaitLimit& limit) {
    sqlite3* raw = nullptr;
    // No mutex in SQLite: a handle is locked by LockedHandle, and a second lock would only cost.
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    const int opened = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
    if (raw == nullptr) return retryable(codes::kDbError, "SQLite " + path + ": out of memory");
    std::unique_ptr<Handle> handle(new Handle(raw, busy_timeout, limit));
    if (opened != SQLITE_OK) return Failure(client::sqlite_error(raw, opened, path));
    sqlite3_busy_handler(raw, &Handle::on_busy, handle.get());
    // Reading the version touches the file for the first time: here a file that is no database shows itself.
    for (const char* sql : {"pragma schema_version", "pragma journal_mode = wal", "pragma synchronous = full",
                            "pragma foreign_keys = on"}) {
        const int code = handle->set_up(sql);
        if (code != SQLITE_OK) return Failure(client::sqlite_error(raw, code, path));
    }
    if (const int code = add_shard_function(raw); code != SQLITE_OK)
        return Failure(client::sqlite_error(raw, code, path));
    if (sqlite3_db_readonly(raw, "main") == 1) {
        return permanent(codes::kDbError, "SQLite " + path + ": opened read-only: it must be writable by this user");
    }
    return handle;
}

/// Two that open a new file at once both want to make its journal a WAL; SQLite answers one of them "busy" without
/// asking the busy handler, since waiting inside a read could only end in a deadlock. Trying anew is right.
int Handle::set_up(const char* sql) {
    int code = sqlite3_exec(raw(), sql, nullptr, nullptr, nullptr);
    for (int tries = 0; (code & 0xFF) == SQLITE_BUSY && on_busy(this, tries) == 1; ++tries) {
        code = sqlite3_exec(raw(), sql, nullptr, nullptr, nullptr);
    }
    return code;
}

Result<SqliteStatement*> Handle::prepared(std::string_view sql) {
    auto found = statements_.find(sql);
    if (found == statements_.end()) {
        TRY_ASSIGN(auto statement, SqliteStatement::prepare(connection_.get(), sql));
        found = statements_.emplace(std::string(sql), std::move(statement)).first;
    }
    return &found->second;
}

Result<std::unique_ptr<File>> File::open(const std::string& path, Duration busy_timeout) {
    if (path.empty() || path == ":memory:") {
        return bad_argument("a SQLite database needs a file: write sqlite:PATH");
    }
    create_private(path);
    std::unique_ptr<File> file(new File(path, busy_timeout));
    for (SharedHandle* shared : {&file->writer_, &file->reader_, &file->searcher_}) {
        // The writer first: it makes the journal a WAL before the others look at the file.
        TRY_ASSIGN(shared->handle, Handle::open(path, busy_timeout, file->limit_));
    }
    return file;
}

// By the reader: the writer may be held by a long transaction of another thread, and the file still answers.
Result<void> File::ping(Duration patience) {
    TRY_ASSIGN(auto handle, lock(reader_, patience));
    return handle->run_script("select count(*) from sqlite_schema");
}

// In slices: std::timed_mutex cannot be woken when a stop brings the limit forward.
Result<LockedHandle> File::lock(SharedHandle& shared, Duration patience) const {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    std::unique_lock lock(shared.mutex, std::defer_lock);
    for (;;) {
        const auto until = limit_.cap(deadline);
        const auto now = std::chrono::steady_clock::now();
        if (lock.try_lock_until(std::min(until, now + kWaitSlice)))
            return LockedHandle(std::move(lock), *shared.handle);
        if (now >= until)
            return retryable(codes::kDbTimeout, "SQLite: other threads kept the connection busy, try again");
    }
}

Result<Transaction> Transaction::begin(Handle& handle, Durability durability) {
    // IMMEDIATE takes the write lock now, where the busy handler can wait for it. A transaction that begins by reading
    // and writes later is refused at once when another process has written in between. The pragma has no effect inside
    // a transaction, so it comes before.
    const std::string begin = durability == Durability::full ? "pragma synchronous = full; begin immediate"
                                                             : "pragma synchronous = normal; begin immediate";
    TRY(handle.run_script(begin));
    return Transaction(handle);
}

Result<Transaction> Transaction::begin_reading(Handle& handle) {
    TRY(handle.run_script("begin"));
    return Transaction(handle);
}

Transaction::~Transaction() {
    // Some failures have rolled back already, and then this one is refused, which is as good.
    if (handle_ != nullptr) static_cast<void>(handle_->run_script("rollback"));
}

Result<void> Transaction::commit() {
    ASSERT(handle_ != nullptr);  // neither committed nor moved from
    TRY(handle_->run_script("commit"));
    handle_ = nullptr;
    return {};
}

}  // namespace deliverd::store::sqlite
