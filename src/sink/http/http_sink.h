// Sends each message as one HTTP request (libcurl multi on a thread of its own: keep-alive, HTTP/2).
//
// POST url, body = Message::body, `Content-Type` = Message::content_type, `Idempotency-Key` =
// Message::message_id, Message::headers, then the configured headers. Redirects are not followed.
// How an answer becomes an outcome: message/http_answer.h and the table in docs/delivery.md.
#pragma once

#include <memory>

#include "base/log.h"
#include "sink/http/http_options.h"
#include "sink/sink.h"

namespace deliverd::sink {

/// Fails (permanent, `bad_argument`) for a URL that is not http or https, a header that cannot be sent, an invalid
/// secret, or a `ca_file` that cannot be read. The sink's check() also reads `token_file` and `secret_file`.
[[nodiscard]] Result<std::unique_ptr<Sink>> make_http_sink(HttpSinkOptions options, Log& log);

}  // namespace deliverd::sink
