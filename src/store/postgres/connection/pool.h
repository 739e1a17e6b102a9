// A bounded set of connections that outlives its server: broken ones are thrown away, new ones are made when
// needed, and a server that is down is asked at growing intervals only.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "deliverd/result.h"
#include "store/postgres/connection/connection.h"

namespace deliverd::store::postgres {

/// The wait between attempts to reach a server that is down starts and ends here.
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

/// A connection on loan. Gives it back, or throws it away when it broke or is still in a transaction.
class Borrowed {
public:
    Borrowed(Pool& pool, std::unique_ptr<Connection> connection) : pool_(&pool), connection_(std::move(connection)) {}
    ~Borrowed();
    Borrowed(Borrowed&&) = default;
    Borrowed& operator=(Borrowed&&) = delete;

    Connection* operator->() const { return connection_.get(); }
    Connection& operator*() const { return *connection_; }

private:
    Pool* pool_;
    std::unique_ptr<Connection> connection_;
};

/// Thread-safe. Outlives what it lent.
class Pool {
public:
    Pool(PoolOptions options, Log& log) : options_(std::move(options)), log_(log) {}

    /// Blocks for `wait` at most. Failure: `db_unreachable`, with the last attempt's cause, or `db_timeout` when
    /// all connections stayed in use. While the server is down only the caller that asks it waits for it; the others
    /// wait for a connection that is still in use, and fail at once when there is none.
    Result<Borrowed> borrow() { return borrow(std::chrono::steady_clock::now() + options_.wait); }
    Result<Borrowed> borrow(Deadline patience);

    /// Ends every wait, for connections and on them, `at_most` from now; those under way as well.
    void limit_waits(Duration at_most);

    [[nodiscard]] const PoolOptions& options() const { return options_; }

    /// Of the last server reached, as libpq numbers it; 0 before that.
    [[nodiscard]] int server_version() const;

private:
    friend class Borrowed;

    std::unique_ptr<Connection> take_idle();
    Result<Borrowed> connect(std::unique_lock<std::mutex>& lock, Deadline deadline);
    /// Whether an attempt that failed just now had too little time to tell anything about the server.
    [[nodiscard]] bool was_cut_short(Deadline began, Deadline limit) const;
    void give_back(std::unique_ptr<Connection> connection);

    const PoolOptions options_;
    Log& log_;
    WaitLimit limit_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::unique_ptr<Connection>> idle_;
    std::size_t open_ = 0;        // idle, lent, or being made
    std::size_t connecting_ = 0;  // of these, being made
    int server_version_ = 0;

    // While the server is down:
    std::optional<Error> last_failure_;
    Duration reconnect_wait_ = kMinReconnectWait;
    Deadline next_attempt_{};
    bool probing_ = false;  // one caller asks the server, for all
};

/// Borrows a connection and runs one statement.
[[nodiscard]] Result<PgResult> run_once(Pool& pool, const Statement& statement, const Params& params, Effect effect);

/// A step for the head of a transaction whose commit need not reach the disk: a claim that a crash forgets is only a
/// lease that runs out.
[[nodiscard]] Step relaxed_commit();

/// Answers when the server does.
[[nodiscard]] Result<void> ping_server(Pool& pool, Duration deadline);

}  // namespace deliverd::store::postgres
