// SHA-256 (OpenSSL).
#pragma once

#include <string>
#include <string_view>

namespace deliverd {

/// Lower-case hex, 64 characters.
[[nodiscard]] std::string sha256_hex(std::string_view bytes);

/// The time it takes does not show where the two differ. Lengths are not hidden.
[[nodiscard]] bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace deliverd
