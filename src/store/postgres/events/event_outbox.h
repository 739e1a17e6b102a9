// The event outbox on PostgreSQL: plain reads by index, one statement per settled batch, leases of shards.
#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "store/events.h"
#include "store/postgres/connection/pool.h"

namespace deliverd::store::postgres {

/// `pool` and `log` outlive the outbox and its listeners. Failure: `bad_argument` for a table that cannot be relayed.
[[nodiscard]] Result<std::unique_ptr<EventOutbox>> open_event_outbox(Pool& pool, Log& log, const std::string& schema,
                                                                     const EventTable& table);

}  // namespace deliverd::store::postgres
