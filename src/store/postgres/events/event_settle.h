// Recording how a batch of events ended.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "store/events.h"
#include "store/postgres/connection/connection.h"
#include "store/postgres/events/event_sql.h"

namespace deliverd::store::postgres {

/// How long a settle waits for a locked row before it settles the batch without the locked rows.
inline constexpr const char* kSettleLockTimeout = "200ms";

/// EventOutbox::settle() on a connection: one round trip, one transaction; a second one where rows are locked.
[[nodiscard]] Result<std::vector<EventSettled>> settle_events(Connection& connection, const EventStatements& sql,
                                                              std::string_view lane, std::string_view owner,
                                                              std::span<const EventSettlement> settlements);

}  // namespace deliverd::store::postgres
