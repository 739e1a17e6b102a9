// The options of the sink to RabbitMQ.
#pragma once

#include <string>

#include "base/clock.h"
#include "deliverd/result.h"
#include "message/event_attributes.h"

namespace deliverd::sink {

struct RabbitmqSinkOptions {
    std::string url;       // amqp:// or amqps://user:password@host:port/vhost; may hold a password: never logged
    std::string exchange;  // empty: the default exchange, routing key = queue
    EventAttributesOptions attributes;
    std::string password_file{};                  // replaces the URL's password, read at each connect
    Duration timeout = std::chrono::seconds(10);  // for a message's confirm; after it the message is ambiguous
    Duration connect_timeout = std::chrono::seconds(5);
    Duration heartbeat = std::chrono::seconds(30);
    bool verify_tls = true;
    std::string ca_file{};  // PEM; instead of the system's certificate authorities
};

/// Refuses what make_rabbitmq_sink() refuses (permanent, `bad_argument`). Never repeats the URL.
[[nodiscard]] Result<void> check_rabbitmq_options(const RabbitmqSinkOptions& options);

}  // namespace deliverd::sink
