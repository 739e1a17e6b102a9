// A bounded set of connections that survives a restart of its server: broken ones are closed, new ones are made when
// needed, and a server that is down is asked only at growing intervals.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "deliverd/result.h"
#include "store/postgres/connection/connection.h"

namespace deliverd::store::postgres {

/// Bounds of the wait between attempts to reach a server that is down.
inline constexpr Duration kMinReconnectWait = std::chrono::milliseconds(50);
inline constexpr Duration kMaxReconnectWait = std::chrono::seconds(2);

struct PoolOptions {
    std::string conninfo;
    std::function<std::string()> refresh_conninfo;  // asked before each new connection, when set
    std::size_t max_connections = 0;
    Duration connect_timeout{};
    Duration wait{};  // for a connection, the time to make one included
    SessionSettings session{};
};

class Pool;

struct GiveBack {
    Pool* pool;
    void operator()(Connection* connection) const;
};
/// A borrowed connection. The destructor returns it, or closes it when it broke or is still in a transaction.
using Borrowed = std::unique_ptr<Connection, GiveBack>;

/// Thread-safe. Outlives the connections that it lent.
class Pool {
public:
    Pool(PoolOptions options, Log& log) : options_(std::move(options)), log_(log) {}

    /// Blocks for `wait` at most. Failure: `db_unreachable`, with the last attempt's cause, or `db_timeout` when
    /// all connections stayed in use. While the server is down only one caller asks it and waits; the others wait for
    /// a connection that is still in use, and fail at once when none is.
    Result<Borrowed> borrow() { return borrow(std::chrono::steady_clock::now() + options_.wait); }
    Result<Borrowed> borrow(Deadline patience);

    /// Ends every wait, for connections and on them, `at_most` from now; also those in progress.
    void limit_waits(Duration at_most);

    [[nodiscard]] const PoolOptions& options() const { return options_; }

    /// Of the last server reached, as libpq numbers it; 0 before that.
    [[nodiscard]] int server_version() const;

private:
    friend GiveBack;

    Borrowed lend(std::unique_ptr<Connection> connection) { return Borrowed(connection.release(), GiveBack{this}); }
    std::unique_ptr<Connection> take_idle() REQUIRES(mutex_);
    /// Lets go of the mutex while it connects.
    Result<Borrowed> connect(Deadline deadline) REQUIRES(mutex_);
    /// Whether an attempt that failed just now had too little time to mean anything.
    [[nodiscard]] bool was_cut_short(Deadline began, Deadline limit) const;
    void give_back(std::unique_ptr<Connection> connection) EXCLUDES(mutex_);
    void notify_all() REQUIRES(mutex_);

    const PoolOptions options_;
    Log& log_;
    WaitLimit limit_;
    mutable Mutex mutex_;
    Condition changed_;
    std::uint64_t changes_ GUARDED_BY(mutex_) = 0;  // how often changed_ was notified
    std::vector<std::unique_ptr<Connection>> idle_ GUARDED_BY(mutex_);
    std::size_t open_ GUARDED_BY(mutex_) = 0;        // idle, lent, or being made
    std::size_t connecting_ GUARDED_BY(mutex_) = 0;  // of these, being made
    int server_version_ GUARDED_BY(mutex_) = 0;

    // While the server is down:
    std::optional<Error> last_failure_ GUARDED_BY(mutex_);
    Duration reconnect_wait_ GUARDED_BY(mutex_) = kMinReconnectWait;
    Deadline next_attempt_ GUARDED_BY(mutex_){};
    bool probing_ GUARDED_BY(mutex_) = false;  // one caller asks the server, for all
};

/// A transaction on a borrowed connection. The destructor rolls back what was not committed.
class Transaction {
public:
    [[nodiscard]] static Result<Transaction> begin(Pool& pool);
    ~Transaction();
    Transaction(Transaction&&) = default;
    Transaction& operator=(Transaction&&) = delete;

    /// A lost answer is never ambiguous here: the transaction has not committed.
    Result<PgResult> run(const Statement& statement, Params params);
    Result<void> commit();
    /// Stays where it is when the transaction is moved.
    Connection& connection() { return *connection_; }

private:
    explicit Transaction(Borrowed connection) : connection_(std::move(connection)) {}
    Borrowed connection_;
};

/// Borrows a connection and runs the steps, or one statement, in one transaction.
[[nodiscard]] Result<std::vector<PgResult>> run_once(Pool& pool, std::span<const Step> steps, Effect effect);
[[nodiscard]] Result<PgResult> run_once(Pool& pool, const Statement& statement, Params params, Effect effect);

/// A step for the head of a transaction whose commit need not reach the disk. Claims need no durable commit, settles
/// do: a claim that a crash forgets is only a lease that runs out, and then a retry.
[[nodiscard]] Step relaxed_commit();

/// Answers when the server does.
[[nodiscard]] Result<void> ping_server(Pool& pool, Duration deadline);

}  // namespace deliverd::store::postgres
