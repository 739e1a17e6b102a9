#include "sink/http/credentials.h"

#include <chrono>

#include "base/assert.h"
#include "base/try.h"

namespace deliverd::sink {

namespace {

constexpr SecretKind kSecrets{"secret file", "SECRET_UNREADABLE", "put the signing secret there (whsec_…)", true};

}  // namespace

Credentials::Credentials(const HttpSinkOptions& options)
    : token_file_(options.token_file, kToken), secret_file_(options.secret_file, kSecrets) {
    if (options.secret.empty()) return;
    auto secrets = WebhookSecrets::parse(options.secret);
    ASSERT(secrets.has_value());  // make_target() refuses others
    secrets_ = std::move(*secrets);
}

Result<void> Credentials::refresh() {
    TRY_ASSIGN(token_, token_file_.read());
    TRY_ASSIGN(const auto read, secret_file_.read());
    if (read == secret_text_) return {};
    auto secrets = WebhookSecrets::parse(read);
    if (!secrets) return secret_file_.unusable(secrets.error().message);
    secrets_ = std::move(*secrets);
    secret_text_ = read;
    return {};
}

RequestProof Credentials::prove(const Message& message, WallTime now) const {
    RequestProof proof{token_};
    if (secrets_.empty()) return proof;
    const auto seconds = std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count();
    proof.timestamp = std::to_string(seconds);
    proof.signature = secrets_.sign(message.message_id, seconds, message.body);
    return proof;
}

}  // namespace deliverd::sink
