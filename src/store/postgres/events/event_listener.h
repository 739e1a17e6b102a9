// Hearing writers: LISTEN deliverd_outbox on a connection of its own.
#pragma once

#include <functional>
#include <memory>

#include "base/log.h"
#include "store/events.h"
#include "store/postgres/connection/pool.h"

namespace deliverd::store::postgres {

/// A connection on which nothing was heard for so long is asked whether it still is one.
inline constexpr Duration kListenCheck = std::chrono::seconds(30);

/// Starts a thread that connects, and again with growing waits (kMinReconnectWait to kMaxReconnectWait) whenever the
/// connection is lost. It calls `on_event` for each notification and each connection made. `log` outlives the listener.
/// Destroying it ends the thread, within a second unless a host name is being looked up or `on_event` blocks.
[[nodiscard]] std::unique_ptr<EventListener> make_event_listener(PoolOptions options, Log& log,
                                                                 std::function<void()> on_event);

}  // namespace deliverd::store::postgres
