// How a request authenticates itself: the bearer token and the signing secrets, as the files have them at the moment.
#pragma once

#include <string>
#include <string_view>

#include "sink/http/http_options.h"
#include "sink/http/webhook_signature.h"
#include "sink/secret_file.h"

namespace deliverd::sink {

/// The headers of one request; empty ones are not sent.
struct RequestProof {
    std::string_view token;
    std::string timestamp{};  // webhook-timestamp
    std::string signature{};  // webhook-signature
};

/// One thread at a time. Never shows what it holds.
class Credentials {
public:
    explicit Credentials(const HttpSinkOptions& options);

    /// Reads what has changed. Failure: retryable, naming the file, while one of them cannot be used.
    [[nodiscard]] Result<void> refresh();

    /// For a request that leaves at `now`; valid until the next refresh().
    [[nodiscard]] RequestProof prove(const Message& message, WallTime now) const;

private:
    SecretFile token_file_;
    SecretFile secret_file_;
    std::string_view token_;
    std::string secret_text_;  // what secrets_ was read from
    WebhookSecrets secrets_;
};

}  // namespace deliverd::sink
