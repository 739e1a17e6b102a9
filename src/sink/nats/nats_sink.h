// Publishes each message to NATS JetStream (libnats), asynchronously with a window.
//
// Subject = Message::topic, data = Message::body, headers `Nats-Msg-Id` = Message::message_id (JetStream drops a second
// one within its duplicate window), `Content-Type`, and plain_attributes() without message_id, or with
// EventFormat::cloudevents cloudevents_attributes() with prefix `ce-`.
//
// A message is delivered when JetStream acknowledged that it stored it. docs/delivery.md has the table of outcomes; a
// subject that no stream has is permanent. While the server cannot be reached nothing is sent: outcomes are retryable
// and not_attempted (BROKER_UNREACHABLE), and the sink keeps trying to connect. Each connection is a new one: libnats'
// own reconnecting would send what it buffered meanwhile after its outcome was reported.
//
// stop() may exceed its patience by the timeout of what cannot be interrupted: connect_timeout per server while
// connecting, `timeout` while the server takes no bytes.
#pragma once

#include <memory>

#include "base/log.h"
#include "sink/nats/nats_options.h"
#include "sink/sink.h"

namespace deliverd::sink {

[[nodiscard]] Result<std::unique_ptr<Sink>> make_nats_sink(NatsSinkOptions options, Log& log);

}  // namespace deliverd::sink
