// The lease protocol on a borrowed connection, in a transaction of its own.
#pragma once

#include "store/postgres/connection/pool.h"
#include "store/session_lease.h"

namespace deliverd::store::postgres {

/// Borrows, begins, and answers the session. `pool` outlives it.
[[nodiscard]] Result<std::unique_ptr<LeaseSession>> open_lease_session(Pool& pool, const std::string& schema);

}  // namespace deliverd::store::postgres
