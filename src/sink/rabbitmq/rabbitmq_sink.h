// Publishes each message to RabbitMQ (rabbitmq-c on a thread of its own): confirms, mandatory, persistent.
//
// Exchange = the option, routing key = Message::topic, body = Message::body; properties message_id, type (the event
// type), timestamp (created_at, seconds), content_type, delivery_mode 2, and as headers plain_attributes() without
// message_id, or with EventFormat::cloudevents cloudevents_attributes() with prefix `cloudEvents:`.
//
// A message is delivered when it was confirmed and not returned: a mandatory message that no queue took is returned and
// then confirmed all the same. docs/delivery.md has the table of outcomes. While the server cannot be reached nothing
// is sent: outcomes are retryable and not_attempted (BROKER_UNREACHABLE), and the sink reconnects with backoff.
//
// check() and the sink's thread wait at most connect_timeout for a connection, plus the time to resolve the host's
// name. stop() exceeds its patience by that at worst, when the thread is connecting.
#pragma once

#include <memory>

#include "base/log.h"
#include "sink/rabbitmq/rabbitmq_options.h"
#include "sink/sink.h"

namespace deliverd::sink {

[[nodiscard]] Result<std::unique_ptr<Sink>> make_rabbitmq_sink(RabbitmqSinkOptions options, Log& log);

}  // namespace deliverd::sink
