#include "base/sha256.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <array>

#include "base/text.h"

namespace deliverd {

std::string sha256_hex(std::string_view bytes) {
    std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
    SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
    return hex_text({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
    // Callers compare digests, whose lengths are known to all.
    return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace deliverd
