#include "sink/http/webhook_signature.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hmac.h"
#include "base/try.h"
#include "sink/http/http_options.h"

namespace deliverd::sink {

namespace {

constexpr std::string_view kPrefix = "whsec_";
constexpr std::string_view kBetween = " \t\r\n,";

/// Names a secret by its position: errors go to the log.
Failure bad_secret(std::size_t number, std::string_view why) {
    return bad_argument(fmt::format("signing secret {} {}: write whsec_ and the base64 of {} to {} random bytes",
                                    number, why, kMinSecretBytes, kMaxSecretBytes));
}

}  // namespace

Result<WebhookSecrets> WebhookSecrets::parse(std::string_view text) {
    WebhookSecrets out;
    for (auto from = text.find_first_not_of(kBetween); from != std::string_view::npos;
         from = text.find_first_not_of(kBetween, from)) {
        const auto to = std::min(text.find_first_of(kBetween, from), text.size());
        auto word = text.substr(from, to - from);
        from = to;
        const auto number = out.keys_.size() + 1;
        if (number > kMaxSecrets) {
            return bad_argument(fmt::format("there are more than {} signing secrets", kMaxSecrets));
        }
        // Providers show the secret with the prefix, libraries store it without.
        if (word.starts_with(kPrefix)) word.remove_prefix(kPrefix.size());
        auto key = base64_decoded(word);
        if (!key) return bad_secret(number, "is not base64");
        if (key->size() < kMinSecretBytes) return bad_secret(number, "is too short");
        if (key->size() > kMaxSecretBytes) return bad_secret(number, "is too long");
        out.keys_.push_back(std::move(*key));
    }
    if (out.keys_.empty()) return bad_secret(1, "is missing");
    return out;
}

Result<void> check_http_secret(std::string_view secret) {
    if (!secret.empty()) TRY(WebhookSecrets::parse(secret));
    return {};
}

std::string WebhookSecrets::sign(std::string_view id, std::int64_t unix_seconds, std::string_view body) const {
    // The standard's text. Id and time are signed too, so that a recorded request cannot be sent again later.
    const std::string content = fmt::format("{}.{}.{}", id, unix_seconds, body);
    std::string out;
    for (const auto& key : keys_) {
        if (!out.empty()) out += ' ';
        out += "v1,";
        out += base64_encoded(hmac_sha256(key, content));
    }
    return out;
}

}  // namespace deliverd::sink
