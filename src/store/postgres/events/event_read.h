// Reading events: one round trip for all parts of a read.
#pragma once

#include "store/events.h"
#include "store/postgres/connection/connection.h"
#include "store/postgres/events/event_sql.h"

namespace deliverd::store::postgres {

/// EventOutbox::read() on a connection. `request` has been checked and asks for at least one shard.
[[nodiscard]] Result<EventBatch> read_events(Connection& connection, const EventStatements& statements,
                                             const EventTable& table, const EventRead& request);

}  // namespace deliverd::store::postgres
