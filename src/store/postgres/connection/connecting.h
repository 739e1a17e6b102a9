// Making a connection to PostgreSQL, and waiting on its socket. What a connection is used for is the caller's.
#pragma once

#include <libpq-fe.h>

#include <chrono>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "deliverd/result.h"
#include "store/wait_limit.h"

namespace deliverd::store::postgres {

using Deadline = std::chrono::steady_clock::time_point;

struct FinishConnection {
    void operator()(PGconn* connection) const { PQfinish(connection); }
};
using PgConnection = std::unique_ptr<PGconn, FinishConnection>;

/// A failed attempt to connect, and the SQLSTATE if the server refused: empty if it was never reached.
struct ConnectFailure {
    Error error;
    std::string sqlstate;
};

/// Connects, without any statement; the connection does not block. `settings` are libpq's and override the conninfo's.
/// Blocks until `deadline` or `limit` at most, except that libpq looks host names up without one. Failure: as
/// Connection::open().
[[nodiscard]] tl::expected<PgConnection, ConnectFailure> connect_to(
    const std::string& conninfo, std::initializer_list<std::pair<const char*, const char*>> settings, Deadline deadline,
    const WaitLimit& limit);

/// Waits until the socket is ready for one of `events` (of poll()); false when the deadline or the limit passed.
[[nodiscard]] bool wait_for_socket(const PGconn* connection, short events, Deadline deadline, const WaitLimit& limit);

}  // namespace deliverd::store::postgres
