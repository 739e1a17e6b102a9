// One connection to PostgreSQL. Every wait on the network has a deadline: a server that hangs costs the caller its
// deadline and the connection, nothing more.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "client/postgres_call.h"
#include "deliverd/result.h"
#include "store/postgres/connection/connecting.h"
#include "store/postgres/connection/statement.h"
#include "store/wait_limit.h"

namespace deliverd::store::postgres {

using client::Effect;
using client::PgResult;

enum class Format { text = 0, binary = 1 };

struct Step {
    const Statement* statement;  // outlives the run
    Params params{};
    Format format = Format::binary;
    const char* point = nullptr;  // failpoint between sending it and reading its answer
};

struct SessionSettings {
    Duration statement_timeout;
    Duration lock_timeout;
    Duration idle_in_transaction_timeout;
};

/// What the server needs beyond its own statement_timeout to report it.
inline constexpr Duration kAnswerGrace = std::chrono::seconds(5);

/// Used by one thread at a time.
class Connection {
public:
    /// Connects and sets the session up; blocks until `deadline` at most, except that libpq looks host names
    /// up without one. Failure: `db_unreachable`, retryable also where the server refused the user, password or
    /// database: a lane must survive a change of the password. Permanent, `db_error`: the database is not UTF8.
    /// The message says what to do. `limit` ends this and every later wait, also one in progress; it outlives the
    /// connection.
    [[nodiscard]] static Result<std::unique_ptr<Connection>> open(const std::string& conninfo,
                                                                  const SessionSettings& settings, Deadline deadline,
                                                                  const WaitLimit& limit);

    /// All steps in one round trip and, unless a transaction is open, one transaction: all or nothing.
    /// Without a deadline they take as long as the session's settings let them.
    Result<std::vector<PgResult>> run(std::span<const Step> steps, Effect effect,
                                      std::optional<Deadline> deadline = std::nullopt);
    Result<PgResult> run(const Step& step, Effect effect, std::optional<Deadline> deadline = std::nullopt);

    /// Any number of statements without parameters, for migrations and BEGIN/COMMIT. Within a transaction of
    /// its own unless one is open.
    Result<void> script(const std::string& sql, Effect effect, std::optional<Deadline> deadline = std::nullopt);

    /// After LISTEN: true when notifications arrived (all of them are consumed), false when none arrived until
    /// `deadline` or the limit.
    Result<bool> wait_for_notification(Deadline deadline);

    /// False after anything that leaves the connection in an unknown state: close it then.
    [[nodiscard]] bool usable() const { return !broken_; }
    /// Nothing has arrived while it was idle. What does arrive is the server ending the session.
    [[nodiscard]] bool quiet() const;
    [[nodiscard]] bool in_transaction() const;
    /// The SQLSTATE with which the server refused the last run(), or a script() after it; empty when it did not.
    [[nodiscard]] const std::string& refused_with() const { return refused_with_; }
    [[nodiscard]] int server_version() const { return PQserverVersion(connection_.get()); }

private:
    struct ServerError {
        std::string sqlstate;
        std::string message;
    };

    Connection(PgConnection connection, const SessionSettings& settings, const WaitLimit& limit)
        : connection_(std::move(connection)), settings_(settings), limit_(limit) {}

    Result<void> set_up_session(Deadline deadline);
    bool queue(std::span<const Step> steps, std::vector<const Statement*>& preparing);
    Result<void> flush(Effect effect, Deadline deadline);
    Result<PgResult> next_result(Effect effect, Deadline deadline);
    Result<std::vector<PgResult>> collect(std::vector<const Statement*> preparing, Effect effect, Deadline deadline);
    [[nodiscard]] Deadline statement_deadline() const;
    /// Waits until the socket is ready for one of `events`; false when the deadline or the limit passed.
    [[nodiscard]] bool wait(short events, Deadline deadline) const;
    static ServerError error_in(const PGresult* result) {
        return {std::string(client::sqlstate_of(result)), client::message_of(result)};
    }
    Failure refused(const ServerError& error, Effect effect);
    Error lost(Effect effect, bool sent);
    Error timed_out(Effect effect, bool sent);

    PgConnection connection_;
    SessionSettings settings_;
    const WaitLimit& limit_;
    std::set<std::string, std::less<>> prepared_;
    bool broken_ = false;
    std::string refused_with_;
};

/// The client library's statements on one of the pool's connections, which outlives the answer. Inside a transaction,
/// where nothing is done until the commit, so that a lost answer here is never ambiguous.
[[nodiscard]] std::unique_ptr<client::PostgresCall> call_on(Connection& connection);

}  // namespace deliverd::store::postgres
