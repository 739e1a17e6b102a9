// The event outbox on PostgreSQL: plain reads by index, one statement per settled batch, leases of shards.
//
// A commit that notifies takes a lock of the whole database server, so writers notify only idle relays: a relay that
// becomes idle says so in deliverd.relays, polls once more and then waits; the trigger notifies only while a relay is
// idle. Under load none is, and no commit pays. A transaction that wrote before that and commits afterwards causes no
// notification, so the relay keeps polling until all transactions that were open when it became idle have ended.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "store/events.h"
#include "store/postgres/connection/pool.h"
#include "store/postgres/events/event_sql.h"

namespace deliverd::store::postgres {

/// `pool` and `log` outlive the outbox and its listeners. Failure: `bad_argument` for a table that cannot be relayed.
[[nodiscard]] Result<std::unique_ptr<EventOutbox>> open_event_outbox(Pool& pool, Log& log, const std::string& schema,
                                                                     const EventTable& table);

// --- the parts with a source of their own --------------------------------------------------------------------------

/// EventOutbox::read() on a connection: one round trip for all parts. `request` has been checked and asks for at least
/// one shard.
[[nodiscard]] Result<EventBatch> read_events(Connection& connection, const EventStatements& statements,
                                             const EventTable& table, const EventRead& request);

/// How long a settle waits for a locked row before it settles the batch without the locked rows.
inline constexpr const char* kSettleLockTimeout = "200ms";

/// EventOutbox::settle() on a connection: one round trip, one transaction; a second one where rows are locked.
[[nodiscard]] Result<std::vector<EventSettled>> settle_events(Connection& connection, const EventStatements& sql,
                                                              std::string_view lane, std::string_view owner,
                                                              std::span<const EventSettlement> settlements);

/// After this long without a notification the connection is checked.
inline constexpr Duration kListenCheck = std::chrono::seconds(30);

/// LISTEN deliverd_outbox on a connection of its own: starts a thread that connects, and connects again with growing
/// waits (kMinReconnectWait to kMaxReconnectWait) whenever the connection is lost. It calls `on_event` for each
/// notification and each connection made. `log` outlives the listener. Destroying it ends the thread, within a second
/// unless a host name is being looked up or `on_event` blocks.
[[nodiscard]] std::unique_ptr<EventListener> make_event_listener(PoolOptions options, Log& log,
                                                                 std::function<void()> on_event);

}  // namespace deliverd::store::postgres
