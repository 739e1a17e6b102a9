// Connection settings as people read them, and error messages for a connection that could not be made.
#pragma once

#include <libpq-fe.h>

#include <string>

#include "deliverd/result.h"

namespace deliverd::store::postgres {

/// libpq keeps the SQLSTATE of a refused connection to itself, except in its verbose messages: to be asked for
/// before the first PQconnectPoll().
inline constexpr PGVerbosity kConnectingVerbosity = PQERRORS_VERBOSE;

/// The error for a connection that failed, with what to do about it: `db_unreachable`, retryable whatever the
/// cause. A wrong password, role or database may be corrected on the server or in a file while the program runs.
[[nodiscard]] Error refusal_of(const PGconn* connection);
/// The SQLSTATE of that refusal; empty if the server gave none.
[[nodiscard]] std::string sqlstate_of_refusal(const PGconn* connection);

/// "db:5432/app", without user or password.
[[nodiscard]] std::string place_of(const std::string& conninfo);

/// What is wrong with a conninfo as far as it shows without connecting (permanent, `bad_argument`): what cannot
/// be read, a port that is not a number, an sslmode that does not exist. Never repeats a password.
[[nodiscard]] Result<void> check_readable(const std::string& conninfo);

}  // namespace deliverd::store::postgres
