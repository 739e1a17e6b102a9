// For tests: private keys, and the parts of their public keys.
#pragma once

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "base/hmac.h"
#include "base/signature.h"

namespace deliverd {

class SigningKey {
public:
    explicit SigningKey(SignatureKind kind, int rsa_bits = kLeastRsaBits)
        : kind_(kind),
          key_(kind == SignatureKind::rs256   ? EVP_RSA_gen(static_cast<unsigned>(rsa_bits))
               : kind == SignatureKind::es256 ? EVP_EC_gen("P-256")
                                              : EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"),
               EVP_PKEY_free) {
        if (!key_) std::abort();
    }

    [[nodiscard]] SignatureKind kind() const { return kind_; }
    // Of the public key, big-endian.
    [[nodiscard]] std::string modulus() const { return number(OSSL_PKEY_PARAM_RSA_N); }
    [[nodiscard]] std::string exponent() const { return number(OSSL_PKEY_PARAM_RSA_E); }
    [[nodiscard]] std::string x() const {
        if (kind_ == SignatureKind::es256) return number(OSSL_PKEY_PARAM_EC_PUB_X, kCoordinateBytes);
        std::string out(kCoordinateBytes, '\0');
        std::size_t size = out.size();
        EVP_PKEY_get_raw_public_key(key_.get(), octets(out), &size);
        return out;
    }
    [[nodiscard]] std::string y() const { return number(OSSL_PKEY_PARAM_EC_PUB_Y, kCoordinateBytes); }

    [[nodiscard]] Result<VerifyKey> verify_key() const {
        if (kind_ == SignatureKind::rs256) return VerifyKey::rsa(modulus(), exponent());
        return kind_ == SignatureKind::es256 ? VerifyKey::p256(x(), y()) : VerifyKey::ed25519(x());
    }

    [[nodiscard]] std::string sign(std::string_view bytes) const {
        const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
        const EVP_MD* digest = kind_ == SignatureKind::ed25519 ? nullptr : EVP_sha256();
        const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
        std::string out(kMostRsaBits / 8, '\0');
        std::size_t size = out.size();
        if (EVP_DigestSignInit(context.get(), nullptr, digest, nullptr, key_.get()) != 1 ||
            EVP_DigestSign(context.get(), octets(out), &size, data, bytes.size()) != 1) {
            std::abort();
        }
        out.resize(size);
        return kind_ == SignatureKind::es256 ? raw_of(out) : out;
    }

private:
    static constexpr std::size_t kCoordinateBytes = 32;

    static unsigned char* octets(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

    static std::string bytes_of(const BIGNUM* value, std::size_t size) {
        std::string out(size != 0 ? size : static_cast<std::size_t>(BN_num_bytes(value)), '\0');
        BN_bn2binpad(value, octets(out), static_cast<int>(out.size()));
        return out;
    }

    [[nodiscard]] std::string number(const char* name, std::size_t size = 0) const {
        BIGNUM* value = nullptr;
        if (EVP_PKEY_get_bn_param(key_.get(), name, &value) != 1) std::abort();
        std::string out = bytes_of(value, size);
        BN_free(value);
        return out;
    }

    static std::string raw_of(const std::string& der) {
        const auto* at = reinterpret_cast<const unsigned char*>(der.data());
        ECDSA_SIG* pair = d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size()));
        std::string out =
            bytes_of(ECDSA_SIG_get0_r(pair), kCoordinateBytes) + bytes_of(ECDSA_SIG_get0_s(pair), kCoordinateBytes);
        ECDSA_SIG_free(pair);
        return out;
    }

    SignatureKind kind_;
    std::shared_ptr<EVP_PKEY> key_;
};

/// As base64url_decoded() reads it.
[[nodiscard]] inline std::string base64url_encoded(std::string_view bytes) {
    std::string out = base64_encoded(bytes);
    out.resize(out.find_last_not_of('=') + 1);
    std::ranges::replace(out, '+', '-');
    std::ranges::replace(out, '/', '_');
    return out;
}

}  // namespace deliverd
