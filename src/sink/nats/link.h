// A connection that publishes, and where its answers arrive.
#pragma once

#include <nats/nats.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "sink/nats/nats_connection.h"

namespace deliverd::sink {

/// Called on threads of libnats, on_answer() and on_refusal() one call at a time each; outlives on_end().
class AnswerReader {
public:
    virtual ~AnswerReader() = default;
    /// `answer` is valid during the call. What it answers is the last part of its subject.
    virtual void on_answer(natsConnection* connection, natsMsg* answer) = 0;
    /// The server refused a publish to `subject` for want of permission: it gets no answer.
    virtual void on_refusal(std::string_view subject) = 0;
    /// Once, when the connection is closed, by the other side or by natsConnection_Close(): nothing is called any more.
    virtual void on_end() = 0;
};

/// What a publish was refused for by the server's words: `Permissions Violation for Publish to "a.b"` → a.b. Empty
/// where they are about anything else.
[[nodiscard]] std::string_view refused_subject(std::string_view complaint);

struct Link {
    NatsConnection connection;
    NatsSubscription answers;  // to `inbox`.*
    std::string inbox;
    std::int64_t max_payload = 0;
};

/// Connects and listens for answers; blocks for at most connect_timeout a server. Failure as of connect_to_nats(), and
/// then `reader` is not called.
[[nodiscard]] Result<std::unique_ptr<Link>> open_link(const NatsSinkOptions& options, std::string_view token,
                                                      AnswerReader& reader);

}  // namespace deliverd::sink
