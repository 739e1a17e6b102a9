// Hearing writers: LISTEN deliverd_outbox on a connection of its own.
//
// A commit that notifies takes a lock of the whole database, so writers notify only sleepers: a relay that goes to
// sleep says so in deliverd.relays, looks once more and then waits; the trigger notifies only while a relay sleeps.
// Under load none does, and no commit pays. A writer that wrote before and commits afterwards causes no notification,
// so the relay keeps looking until the transactions that were open when it fell asleep have ended
// (LookPlanner::fell_asleep).
#pragma once

#include <functional>
#include <memory>

#include "base/log.h"
#include "store/events.h"
#include "store/postgres/connection/pool.h"

namespace deliverd::store::postgres {

/// A connection without a notification for this long is asked whether it is still alive.
inline constexpr Duration kListenCheck = std::chrono::seconds(30);

/// Starts a thread that connects, and again with growing waits (kMinReconnectWait to kMaxReconnectWait) whenever the
/// connection is lost. It calls `on_event` for each notification and each connection made. `log` outlives the listener.
/// Destroying it ends the thread, within a second unless a host name is being looked up or `on_event` blocks.
[[nodiscard]] std::unique_ptr<EventListener> make_event_listener(PoolOptions options, Log& log,
                                                                 std::function<void()> on_event);

}  // namespace deliverd::store::postgres
