// One SQLite file, opened twice: a connection that writes and one that reads beside it (WAL lets them).
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/clock.h"
#include "client/sqlite_statement.h"
#include "deliverd/result.h"
#include "store/wait_limit.h"

namespace deliverd::store::sqlite {

using client::SqliteStatement;

/// A connection and the statements it has prepared. One thread at a time: hold the File's lock.
class Handle {
public:
    /// Waits for other processes for the busy timeout at most, and not beyond `limit`, which outlives the handle.
    [[nodiscard]] static Result<std::unique_ptr<Handle>> open(const std::string& path, Duration busy_timeout,
                                                              const WaitLimit& limit);

    /// Prepared once, reset and ready to be bound.
    Result<SqliteStatement*> prepared(std::string_view sql);
    Result<void> run(const std::string& sql) { return client::sqlite_run(connection_.get(), sql); }
    [[nodiscard]] sqlite3* raw() const { return connection_.get(); }
    [[nodiscard]] Duration busy_timeout() const { return busy_timeout_; }
    [[nodiscard]] int changes() const { return sqlite3_changes(connection_.get()); }

private:
    struct Close {
        void operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }
    };
    Handle(sqlite3* connection, Duration busy_timeout, const WaitLimit& limit)
        : connection_(connection), busy_timeout_(busy_timeout), limit_(limit) {}
    /// SQLite asks it whether to try once more, `tries` times so far; it answers after a pause.
    static int on_busy(void* self, int tries);
    int set_up(const char* sql);

    std::unique_ptr<sqlite3, Close> connection_;
    const Duration busy_timeout_;
    const WaitLimit& limit_;
    std::chrono::steady_clock::time_point busy_until_;
    std::map<std::string, SqliteStatement, std::less<>> statements_;
};

/// A handle while this thread may use it.
class LockedHandle {
public:
    LockedHandle(std::unique_lock<std::timed_mutex> lock, Handle& handle) : lock_(std::move(lock)), handle_(&handle) {}
    Handle* operator->() const { return handle_; }
    Handle& operator*() const { return *handle_; }

private:
    std::unique_lock<std::timed_mutex> lock_;
    Handle* handle_;
};

/// Thread-safe.
class File {
public:
    /// Creates the file when it is absent, for its owner alone. Failure: permanent, naming the path and what to do;
    /// `db_timeout` when another process holds it.
    [[nodiscard]] static Result<std::unique_ptr<File>> open(const std::string& path, Duration busy_timeout);

    /// Wait at most the busy timeout (or `patience`) for other threads of this process: `db_timeout`.
    Result<LockedHandle> writer() { return lock(writer_mutex_, *writer_, busy_timeout_); }
    Result<LockedHandle> reader() { return lock(reader_mutex_, *reader_, busy_timeout_); }
    Result<LockedHandle> reader(Duration patience) { return lock(reader_mutex_, *reader_, patience); }

    /// For a read that may take as long as the table is large: one at a time, and no other read waits for it.
    Result<LockedHandle> searcher() { return lock(searcher_mutex_, *searcher_, busy_timeout_); }

    /// Ends every wait for other threads and processes `at_most` from now; those under way as well.
    void limit_waits(Duration at_most) { limit_.set(at_most); }

    [[nodiscard]] const std::string& path() const { return path_; }

private:
    File(std::string path, Duration busy_timeout) : path_(std::move(path)), busy_timeout_(busy_timeout) {}
    Result<LockedHandle> lock(std::timed_mutex& mutex, Handle& handle, Duration patience) const;

    const std::string path_;
    const Duration busy_timeout_;
    WaitLimit limit_;
    std::timed_mutex writer_mutex_;
    std::timed_mutex reader_mutex_;
    std::timed_mutex searcher_mutex_;
    std::unique_ptr<Handle> writer_;
    std::unique_ptr<Handle> reader_;
    std::unique_ptr<Handle> searcher_;
};

enum class Durability {
    full,     // on the disk when commit() returns
    relaxed,  // may be forgotten by a power cut: for claims, which then only wait for their lease to run out
};

/// BEGIN IMMEDIATE … COMMIT. The destructor rolls back what was not committed.
class Transaction {
public:
    [[nodiscard]] static Result<Transaction> begin(Handle& handle, Durability durability);
    /// Takes no lock: what is read in it is of one moment.
    [[nodiscard]] static Result<Transaction> begin_reading(Handle& handle);
    ~Transaction();
    Transaction(Transaction&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Transaction& operator=(Transaction&&) = delete;

    Result<void> commit();

private:
    explicit Transaction(Handle& handle) : handle_(&handle) {}
    Handle* handle_;
};

/// `work` (a Result from a Handle&) on the writing connection, in a transaction that commits when it succeeds.
template <typename Work>
[[nodiscard]] std::invoke_result_t<Work, Handle&> in_transaction(File& file, Durability durability, Work work) {
    auto handle = file.writer();
    if (!handle) return Failure(std::move(handle.error()));
    auto transaction = Transaction::begin(**handle, durability);
    if (!transaction) return Failure(std::move(transaction.error()));
    auto answer = work(**handle);
    if (!answer) return answer;
    if (auto done = transaction->commit(); !done) return Failure(std::move(done.error()));
    return answer;
}

/// `read` for every row the bound statement answers; it is reset afterwards.
template <typename Read>
[[nodiscard]] Result<void> each_row(SqliteStatement& statement, Read read) {
    for (;;) {
        auto more = statement.step();
        if (!more) return Failure(std::move(more.error()));
        if (!*more) break;
        read(statement);
    }
    statement.reset();
    return {};
}

}  // namespace deliverd::store::sqlite
