// The headers of an HTTP request: which may be sent, and which an event becomes (HttpSinkOptions::events). Pure code.
#pragma once

#include <string_view>

#include "deliverd/result.h"
#include "message/event_attributes.h"
#include "message/message.h"

namespace deliverd::sink {

/// Whether `name: value` is one header line and nothing else, and not one that delimits the request.
[[nodiscard]] bool is_header(std::string_view name, std::string_view value);

/// The permanent failure of a header that is none, or that may not be set. Never repeats its value.
[[nodiscard]] Failure unsendable_header(std::string_view code, std::string_view name);

/// plain: plain_attributes() except message_id, which is the Idempotency-Key, named by http_header_name(), their
/// values by plain_header_value(). cloudevents: binary mode of CloudEvents' HTTP binding. In both `traceparent` and
/// `tracestate` also go under their own names, where they are plain ASCII. Of several with the same header name the
/// first is sent.
[[nodiscard]] Attributes event_headers(const Message& message, const EventAttributesOptions& options);

/// Whether receivers, and the proxies before them, trust a header of this name about the request's sender, route or
/// purpose: X-Forwarded-For, Authorization, Host. Values that come from data must not go into such a header.
[[nodiscard]] bool is_trusted_header(std::string_view name);

}  // namespace deliverd::sink
