#include "base/sha256.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <array>

namespace deliverd {

std::string sha256_hex(std::string_view bytes) {
    std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
    SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());

    constexpr std::string_view kHex = "0123456789abcdef";
    std::string hex;
    hex.reserve(2 * digest.size());
    for (const unsigned char byte : digest) {
        hex.push_back(kHex[byte >> 4U]);
        hex.push_back(kHex[byte & 0xFU]);
    }
    return hex;
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
    return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace deliverd
