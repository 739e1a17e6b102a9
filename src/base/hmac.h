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

/// None for anything but what base64_encoded() writes: no white space, no missing padding, no loose bits.
[[nodiscard]] std::optional<std::string> base64_decoded(std::string_view text);

/// The alphabet for URLs, without padding; as strict.
[[nodiscard]] std::optional<std::string> base64url_decoded(std::string_view text);

}  // namespace deliverd
