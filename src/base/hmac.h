// HMAC-SHA-256 (OpenSSL) and Base64 (RFC 4648).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace deliverd {

/// 32 bytes.
[[nodiscard]] std::string hmac_sha256(std::string_view key, std::string_view bytes);

/// With padding.
[[nodiscard]] std::string base64_encoded(std::string_view bytes);

/// None for any text that base64_encoded() does not write: white space, missing padding, unused bits that are set.
[[nodiscard]] std::optional<std::string> base64_decoded(std::string_view text);

/// The alphabet for URLs, without padding; equally strict.
[[nodiscard]] std::optional<std::string> base64url_decoded(std::string_view text);

}  // namespace deliverd
