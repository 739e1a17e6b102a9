// The event outbox for people, on a borrowed connection, in a transaction of its own.
#pragma once

#include "store/postgres/connection/pool.h"
#include "store/session_events.h"

namespace deliverd::store::postgres {

/// Borrows, begins, and answers the session. `pool` outlives it.
[[nodiscard]] Result<std::unique_ptr<EventSession>> open_event_session(Pool& pool, const std::string& schema);

}  // namespace deliverd::store::postgres
