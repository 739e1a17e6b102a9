// Standard Webhooks signatures (symmetric, v1). Pure code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "deliverd/result.h"

namespace deliverd::sink {

inline constexpr std::size_t kMinSecretBytes = 24;  // after decoding, as the standard says
inline constexpr std::size_t kMaxSecretBytes = 64;
inline constexpr std::size_t kMaxSecrets = 8;  // each costs one signature per request

class WebhookSecrets {
public:
    WebhookSecrets() = default;  // none

    /// One secret or several, separated by white space or commas, each base64 with or without "whsec_" in front.
    /// Failure (permanent, `bad_argument`): none, too many, not base64, too short or too long; never repeats them.
    static Result<WebhookSecrets> parse(std::string_view text);

    [[nodiscard]] bool empty() const { return keys_.empty(); }

    /// The header `webhook-signature`: "v1," and base64 for each secret, separated by spaces. One secret is enough to
    /// check it, so that secrets can be replaced without an interruption.
    [[nodiscard]] std::string sign(std::string_view id, std::int64_t unix_seconds, std::string_view body) const;

private:
    std::vector<std::string> keys_;
};

}  // namespace deliverd::sink
