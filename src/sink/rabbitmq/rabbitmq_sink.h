// Publishes each message to RabbitMQ (rabbitmq-c on a thread of its own): confirms, mandatory, persistent.
//
// Exchange = the option, routing key = Message::topic, body = Message::body; properties message_id, type (the event
// type), timestamp (created_at, seconds), content_type, delivery_mode 2, and as headers plain_attributes() without
// message_id, or with EventFormat::cloudevents cloudevents_attributes() with prefix `cloudEvents:`.
//
// A message is delivered when it was confirmed and not returned: a mandatory message that no queue took is returned and
// confirmed nevertheless. docs/delivery.md has the table of outcomes. While the server cannot be reached nothing is
// tried: outcomes are retryable and not_attempted (BROKER_UNREACHABLE), and the sink reconnects by itself, with
// backoff.
//
// check() and the sink's thread wait for a connection at most connect_timeout, besides what looking up the host's name
// takes; stop() waits that long beyond its patience at worst, where it meets the connecting itself.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "message/event_attributes.h"
#include "sink/sink.h"

namespace deliverd::sink {

struct RabbitmqSinkOptions {
    std::string url;       // amqp:// or amqps://user:password@host:port/vhost; may hold a password: never logged
    std::string exchange;  // empty: the default exchange, routing key = queue
    EventAttributesOptions attributes;
    std::string password_file{};                  // in place of the URL's password, read again at each connecting
    Duration timeout = std::chrono::seconds(10);  // for a message's confirm; then it is ambiguous
    Duration connect_timeout = std::chrono::seconds(5);
    Duration heartbeat = std::chrono::seconds(30);
    bool verify_tls = true;
    std::string ca_file{};  // PEM; instead of the system's certificate authorities
};

/// What make_rabbitmq_sink() refuses (permanent, `bad_argument`), for a configuration's check. Never repeats the URL.
[[nodiscard]] Result<void> check_rabbitmq_options(const RabbitmqSinkOptions& options);

[[nodiscard]] Result<std::unique_ptr<Sink>> make_rabbitmq_sink(RabbitmqSinkOptions options, Log& log);

}  // namespace deliverd::sink
