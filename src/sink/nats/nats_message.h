// A message in NATS' form: subject, headers, data. No I/O.
#pragma once

#include <nats/nats.h>

#include <string>
#include <string_view>

#include "base/handle.h"
#include "deliverd/result.h"
#include "message/event_attributes.h"
#include "message/message.h"

namespace deliverd::sink {

using NatsMessage = Handle<natsMsg, natsMsg_Destroy>;

/// Permanent failure, BAD_TOPIC, when nothing can be published to `subject`: empty, longer than a server reads, white
/// space, control characters, wildcards, empty parts between dots, not UTF-8, or one of the server's own (`$…`).
[[nodiscard]] Result<void> check_subject(std::string_view subject);

/// A subject as error messages show it: on one line, and not longer than a line.
[[nodiscard]] std::string shown_subject(std::string_view subject);

/// The headers of nats_sink.h except Nats-Msg-Id, values by plain_header_value(), those of CloudEvents by
/// percent_encoded(): NATS takes visible ASCII. Leaves out entries that would be `Content-Type` or a command to the
/// server (`Nats-…`): an event's metadata must not be able to purge a stream.
[[nodiscard]] Attributes nats_headers(const Message& message, const EventAttributesOptions& options);

/// With `Nats-Msg-Id`, `Content-Type` and nats_headers(); the answer goes to `reply`. Failure: permanent, of
/// check_subject(); retryable, out of memory.
[[nodiscard]] Result<NatsMessage> make_nats_message(const Message& message, const EventAttributesOptions& options,
                                                    const std::string& reply);

}  // namespace deliverd::sink
