// One SQLite file, opened three times: a connection that writes, one that reads beside it (the write-ahead log lets
// it), and one for reads that may take as long as the table is large.
//
// SQLite has one writer at a time. A second writing connection would wait for the file's lock, as another process does;
// here a thread waits for a mutex, and a stop can end that wait. So no row is ever locked by somebody else: where the
// statements for PostgreSQL skip such rows, those for SQLite need not.
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
#include "base/try.h"
#include "client/sqlite_statement.h"
#include "deliverd/result.h"
#include "store/wait_limit.h"

namespace deliverd::store::sqlite {

using client::SqliteStatement;

/// A connection and the statements it has prepared. One thread at a time: a LockedHandle is the proof.
class Handle : public client::SqliteCalls<Handle> {
public:
    /// Waits for other processes for the busy timeout at most, and not beyond `limit`, which outlives the handle.
    [[nodiscard]] static Result<std::unique_ptr<Handle>> open(const std::string& path, Duration busy_timeout,
                                                              const WaitLimit& limit);

    /// Statements that answer nothing, separated by semicolons; prepared anew each time.
    Result<void> run_script(const std::string& sql) { return client::sqlite_run(connection_.get(), sql); }

    /// Prepared at its first use, and kept.
    Result<SqliteStatement*> prepared(std::string_view sql);
    [[nodiscard]] sqlite3* raw() const { return connection_.get(); }
    [[nodiscard]] Duration busy_timeout() const { return busy_timeout_; }

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

/// A handle and who may use it. The mutex is not a Mutex (base/mutex.h), because a wait for it has an end.
struct SharedHandle {
    std::timed_mutex mutex;
    std::unique_ptr<Handle> handle;
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

    /// Each waits at most the busy timeout for other threads of this process: `db_timeout`.
    Result<LockedHandle> writer() { return lock(writer_, busy_timeout_); }
    Result<LockedHandle> reader() { return lock(reader_, busy_timeout_); }
    /// For a read that may take as long as the table is large: one at a time, and no other read waits for it.
    Result<LockedHandle> searcher() { return lock(searcher_, busy_timeout_); }

    /// Whether the file answers, within `patience`.
    Result<void> ping(Duration patience);

    /// Ends every wait for other threads and processes `at_most` from now; those under way as well.
    void limit_waits(Duration at_most) { limit_.set(at_most); }

    [[nodiscard]] const std::string& path() const { return path_; }

private:
    File(std::string path, Duration busy_timeout) : path_(std::move(path)), busy_timeout_(busy_timeout) {}
    Result<LockedHandle> lock(SharedHandle& shared, Duration patience) const;

    const std::string path_;
    const Duration busy_timeout_;
    WaitLimit limit_;
    SharedHandle writer_;
    SharedHandle reader_;
    SharedHandle searcher_;
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
    TRY_ASSIGN(auto handle, file.writer());
    TRY_ASSIGN(auto transaction, Transaction::begin(*handle, durability));
    auto answer = work(*handle);
    if (!answer) return answer;
    TRY(transaction.commit());
    return answer;
}

}  // namespace deliverd::store::sqlite
