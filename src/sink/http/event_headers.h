// What an HTTP request says about an event (HttpSinkOptions::events). Pure code.
#pragma once

#include "message/event_attributes.h"
#include "message/message.h"

namespace deliverd::sink {

/// plain: plain_attributes() but message_id, which is the Idempotency-Key, named by http_header_name(), their
/// values by plain_header_value(). cloudevents: binary mode of CloudEvents' HTTP binding. In both
/// `traceparent` and `tracestate` also under their own names, where they are plain ASCII. Of several that would have
/// the same header's name the first is sent.
[[nodiscard]] Attributes event_headers(const Message& message, const EventAttributesOptions& options);

/// Whether receivers, and the proxies before them, believe a header of this name about who sent the request, over which
/// way and what for: X-Forwarded-For, Authorization, Host. Not for words that come from data.
[[nodiscard]] bool is_trusted_header(std::string_view name);

}  // namespace deliverd::sink
