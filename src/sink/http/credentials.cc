#include "sink/http/credentials.h"

#include <fmt/format.h>

#include <chrono>

namespace deliverd::sink {

namespace {

constexpr SecretKind kSecrets{"secret file", "SECRET_UNREADABLE", "put the signing secret there (whsec_…)", true};

}  // namespace

Credentials::Credentials(const HttpSinkOptions& options)
    : has_token_(!options.token_file.empty()),
      has_secret_file_(!options.secret_file.empty()),
      token_file_(options.token_file, kToken),
      secret_file_(options.secret_file, kSecrets),
      secret_path_(options.secret_file) {
    if (options.secret.empty()) return;
    if (auto secrets = WebhookSecrets::parse(options.secret)) secrets_ = std::move(*secrets);
}

Result<void> Credentials::refresh() {
    if (has_token_) {
        const auto read = token_file_.read();
        if (!read) return Failure(read.error());
        token_ = *read;
    }
    return has_secret_file_ ? read_secrets() : Result<void>();
}

Result<void> Credentials::read_secrets() {
    const auto read = secret_file_.read();
    if (!read) return Failure(read.error());
    if (*read == secret_text_) return {};
    auto secrets = WebhookSecrets::parse(*read);
    if (!secrets) {
        return retryable(std::string(kSecrets.code),
                         fmt::format("{} {}: {}", kSecrets.file, secret_path_, secrets.error().message));
    }
    secrets_ = std::move(*secrets);
    secret_text_ = *read;
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
