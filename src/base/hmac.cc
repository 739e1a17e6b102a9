#include "base/hmac.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <new>

namespace deliverd {

namespace {

const unsigned char* bytes_of(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

std::string hmac_sha256(std::string_view key, std::string_view bytes) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes_of(bytes), bytes.size(), digest.data(),
             &size) == nullptr) {
        throw std::bad_alloc();  // nothing else can fail
    }
    return {reinterpret_cast<const char*>(digest.data()), size};
}

std::string base64_encoded(std::string_view bytes) {
    std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');  // OpenSSL writes a final zero
    const int size =
        EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()), bytes_of(bytes), static_cast<int>(bytes.size()));
    out.resize(static_cast<std::size_t>(size));
    return out;
}

std::optional<std::string> base64_decoded(std::string_view text) {
    if (text.size() % 4 != 0) return std::nullopt;
    // EVP_DecodeBlock writes whole groups of three; the padding is cut off below.
    std::string out(text.size() / 4 * 3, '\0');
    const int size =
        EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()), bytes_of(text), static_cast<int>(text.size()));
    if (size < 0) return std::nullopt;
    out.resize(static_cast<std::size_t>(size));
    if (text.ends_with("=="))
        out.resize(out.size() - 2);
    else if (text.ends_with('='))
        out.resize(out.size() - 1);
    // OpenSSL ignores white space around the text and unused bits at its end.
    if (base64_encoded(out) != text) return std::nullopt;
    return out;
}

std::optional<std::string> base64url_decoded(std::string_view text) {
    constexpr std::size_t kGroup = 4;
    if (text.find_first_of("+/=") != std::string_view::npos || text.size() % kGroup == 1) return std::nullopt;
    std::string usual(text);
    std::ranges::replace(usual, '-', '+');
    std::ranges::replace(usual, '_', '/');
    usual.resize((usual.size() + kGroup - 1) / kGroup * kGroup, '=');
    return base64_decoded(usual);
}

}  // namespace deliverd
