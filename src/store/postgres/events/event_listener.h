// Hearing writers: LISTEN deliverd_outbox on a connection of its own.
//
// A commit that notifies takes a lock of the whole database server, so writers notify only idle relays: a relay that
// becomes idle says so in deliverd.relays, polls once more and then waits; the trigger notifies only while a relay is
// idle. Under load none is, and no commit pays. A transaction that wrote before that and commits afterwards causes no
// notification, so the relay keeps polling until all transactions that were open when it became idle have ended.
#pragma once

#include <functional>
#include <memory>

#include "base/log.h"
#include "store/events.h"
#include "store/postgres/connection/pool.h"

namespace deliverd::store::postgres {

/// After this long without a notification the connection is checked.
inline constexpr Duration kListenCheck = std::chrono::seconds(30);

/// Starts a thread that connects, and connects again with growing waits (kMinReconnectWait to kMaxReconnectWait)
/// whenever the connection is lost. It calls `on_event` for each notification and each connection made. `log` outlives
/// the listener. Destroying it ends the thread, within a second unless a host name is being looked up or `on_event`
/// blocks.
[[nodiscard]] std::unique_ptr<EventListener> make_event_listener(PoolOptions options, Log& log,
                                                                 std::function<void()> on_event);

}  // namespace deliverd::store::postgres
