// A connection to NATS, made from the sink's options. It does not reconnect by itself: libnats would keep messages that
// are published meanwhile and send them later, long after their outcome was reported.
#pragma once

#include <nats/nats.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/handle.h"
#include "sink/nats/nats_options.h"

namespace deliverd::sink {

using NatsConnection = Handle<natsConnection, natsConnection_Destroy>;
using NatsSubscription = Handle<natsSubscription, natsSubscription_Destroy>;

/// The URL's hosts and ports, without user and password, for people.
[[nodiscard]] std::string nats_hosts(std::string_view url);

/// Whether JetStream answers; blocks for about `limit`, of which each of the URL's servers gets its share. `token` may
/// be empty. Failure: retryable; UNAUTHORIZED when the server refused the credentials, JETSTREAM_UNAVAILABLE,
/// kBrokerUnreachable otherwise; none shows a secret.
[[nodiscard]] Result<void> check_jetstream(const NatsSinkOptions& options, std::string_view token, Duration limit);

/// Called on libnats' threads; one call of on_answer() and one of on_refusal() at a time. Outlives on_end().
class AnswerReader {
public:
    virtual ~AnswerReader() = default;
    /// `answer` is valid during the call. The last part of its subject says what it answers.
    virtual void on_answer(natsConnection* connection, natsMsg* answer) = 0;
    /// The server refused a publish to `subject` for lack of permission: it gets no answer.
    virtual void on_refusal(std::string_view subject) = 0;
    /// Once, when the connection is closed, by the server or by natsConnection_Close(). It is the last call.
    virtual void on_end() = 0;
};

/// The subject in the server's error `Permissions Violation for Publish to "a.b"`: a.b. Empty for any other error.
[[nodiscard]] std::string_view refused_subject(std::string_view complaint);

struct Link {
    NatsConnection connection;
    NatsSubscription answers;  // to `inbox`.*
    std::string inbox;
    std::int64_t max_payload = 0;
};

/// Connects and subscribes to the answers; blocks for at most connect_timeout per server. Failure as
/// check_jetstream(); then `reader` is not called.
[[nodiscard]] Result<std::unique_ptr<Link>> open_link(const NatsSinkOptions& options, std::string_view token,
                                                      AnswerReader& reader);

}  // namespace deliverd::sink
