// Sends each message as one HTTP request (libcurl multi on a thread of its own: keep-alive, HTTP/2).
//
// POST url, body = Message::body, `Content-Type` = Message::content_type, `Idempotency-Key` =
// Message::message_id, Message::headers, then the configured headers. Redirects are not followed.
// How an answer becomes an outcome: message/http_answer.h and the table in docs/delivery.md.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/log.h"
#include "sink/http/http_options.h"
#include "sink/sink.h"

namespace deliverd::sink {

/// What make_http_sink() refuses (permanent, `bad_argument`), for a configuration's check. None repeats the
/// URL, a header's value or a secret.
[[nodiscard]] Result<void> check_http_url(const std::string& url);
[[nodiscard]] Result<void> check_http_header(std::string_view name, std::string_view value);
[[nodiscard]] Result<void> check_http_secret(std::string_view secret);

/// Fails (permanent, `bad_argument`) for a URL that is not http or https, a header that cannot be sent, a secret that
/// is none, or a `ca_file` that cannot be read. The sink's check() also reads `token_file` and `secret_file`.
[[nodiscard]] Result<std::unique_ptr<Sink>> make_http_sink(HttpSinkOptions options, Log& log);

}  // namespace deliverd::sink
