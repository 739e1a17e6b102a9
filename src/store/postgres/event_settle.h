// Recording how a batch of events ended.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "store/events.h"
#include "store/postgres/connection.h"
#include "store/postgres/event_sql.h"

namespace deliverd::store::postgres {

/// EventOutbox::settle() on a connection: one round trip, one transaction.
[[nodiscard]] Result<std::vector<EventSettled>> settle_events(Connection& connection, const EventStatements& sql,
                                                              std::string_view lane, std::string_view owner,
                                                              std::span<const EventSettlement> settlements);

}  // namespace deliverd::store::postgres
