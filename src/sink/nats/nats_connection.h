// A connection to NATS, made from the sink's options, that does not come back by itself once it is lost: libnats would
// keep what is published meanwhile and send it later, when its outcome was long reported.
#pragma once

#include <nats/nats.h>

#include <memory>
#include <string>
#include <string_view>

#include "sink/nats/nats_options.h"

namespace deliverd::sink {

struct NatsConnectionDeleter {
    void operator()(natsConnection* connection) const { natsConnection_Destroy(connection); }
};
using NatsConnection = std::unique_ptr<natsConnection, NatsConnectionDeleter>;

struct NatsSubscriptionDeleter {
    void operator()(natsSubscription* subscription) const { natsSubscription_Destroy(subscription); }
};
using NatsSubscription = std::unique_ptr<natsSubscription, NatsSubscriptionDeleter>;

/// Called on libnats' own thread, in the order things happened.
struct NatsEvents {
    natsErrHandler on_error = nullptr;          // nats_GetLastError() has the server's words
    natsConnectionHandler on_closed = nullptr;  // once for a connection that was made, the last of all calls
    void* closure = nullptr;
};

/// The URL's hosts and ports, without user and password, for people.
[[nodiscard]] std::string nats_hosts(std::string_view url);

/// Tries the URL's servers, each for at most its share of `limit`; blocks. `token` may be empty. Failure: retryable,
/// UNAUTHORIZED when the server refused who we are, kBrokerUnreachable otherwise; neither shows a secret.
[[nodiscard]] Result<NatsConnection> connect_to_nats(const NatsSinkOptions& options, std::string_view token,
                                                     Duration limit, const NatsEvents& events = {});

/// Whether JetStream answers on the connection; blocks for at most `limit`.
[[nodiscard]] Result<void> ask_for_jetstream(natsConnection* connection, Duration limit);

}  // namespace deliverd::sink
