// The client library's statements on one of the pool's connections.
#pragma once

#include <memory>

#include "client/postgres_call.h"
#include "store/postgres/connection/connection.h"

namespace deliverd::store::postgres {

/// Inside a transaction, where nothing is done until the commit, so that a lost answer here is never ambiguous.
/// `connection` outlives the answer.
[[nodiscard]] std::unique_ptr<client::PostgresCall> call_on(Connection& connection);

}  // namespace deliverd::store::postgres
