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

#include <memory>

#include "base/log.h"
#include "sink/rabbitmq/rabbitmq_options.h"
#include "sink/sink.h"

namespace deliverd::sink {

/// What make_rabbitmq_sink() refuses (permanent, `bad_argument`), for a configuration's check. Never repeats the URL.
[[nodiscard]] Result<void> check_rabbitmq_options(const RabbitmqSinkOptions& options);

[[nodiscard]] Result<std::unique_ptr<Sink>> make_rabbitmq_sink(RabbitmqSinkOptions options, Log& log);

}  // namespace deliverd::sink
