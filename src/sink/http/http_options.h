// The options of the sink over HTTP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "deliverd/result.h"
#include "message/event_attributes.h"
#include "message/http_answer.h"

namespace deliverd::sink {

struct HttpSinkOptions {
    std::string url{};
    std::vector<std::pair<std::string, std::string>> headers{};
    std::string token_file{};  // bearer token, re-read when the file changes; empty: none
    Duration connect_timeout = std::chrono::seconds(3);
    Duration timeout = std::chrono::seconds(5);  // whole request
    std::size_t max_connections = 64;
    std::size_t max_answer_bytes = 64 * 1024;   // read of an answer's body
    std::vector<std::string> receipt_fields{};  // the first of these in a JSON answer is the receipt
    bool verify_tls = true;
    std::string ca_file{};                   // PEM; instead of the system's certificate authorities
    std::optional<ProcessedMatch> broker{};  // set: answers are an order broker's (message/http_answer.h)

    /// Set: messages are events. plain_attributes() go as headers named by http_header_name(), `traceparent` and
    /// `tracestate` also under their own names; with EventFormat::cloudevents cloudevents_attributes() with prefix
    /// `ce-`, percent-encoded.
    std::optional<EventAttributesOptions> events{};
    /// Standard Webhooks: `webhook-id` (the message's id), `webhook-timestamp` (of the attempt), `webhook-signature`
    /// (v1). "whsec_" and the base64 of 24 to 64 bytes; several, separated by spaces or commas, give a signature each.
    /// Empty: unsigned.
    std::string secret{};
    std::string secret_file{};  // the same from a file, read again when it changes
    /// Circuit breaker: after this many failures in a row (no connection, timeout, 5xx) nothing is sent for
    /// breaker_pause (outcomes not_attempted, DESTINATION_PAUSED), then one message probes the receiver; each failed
    /// probe doubles the pause, up to five minutes. 0: no breaker.
    std::int32_t breaker_failures = 0;
    Duration breaker_pause = std::chrono::seconds(10);
};

/// Refuse what make_http_sink() refuses (permanent, `bad_argument`). None repeats the URL, a header's value or a
/// secret.
[[nodiscard]] Result<void> check_http_url(const std::string& url);
[[nodiscard]] Result<void> check_http_header(std::string_view name, std::string_view value);
[[nodiscard]] Result<void> check_http_secret(std::string_view secret);

}  // namespace deliverd::sink
