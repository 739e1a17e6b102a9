// A connection that publishes, and where its answers arrive.
#pragma once

#include <nats/nats.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "sink/nats/nats_connection.h"

namespace deliverd::sink {

/// Called on a thread of libnats, one call at a time; outlives on_end().
class AnswerReader {
public:
    virtual ~AnswerReader() = default;
    /// `answer` is valid during the call. What it answers is the last part of its subject.
    virtual void on_answer(natsConnection* connection, natsMsg* answer) = 0;
    /// Once, when the connection is closed, by the other side or by natsConnection_Close(): nothing is called any more.
    virtual void on_end() = 0;
};

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
