// Checks signatures with a public key (OpenSSL).
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "deliverd/result.h"

struct evp_pkey_st;  // OpenSSL's EVP_PKEY

namespace deliverd {

/// Named as in RFC 7518 and RFC 8037.
enum class SignatureKind {
    rs256,    // RSA, PKCS#1 v1.5, SHA-256
    es256,    // ECDSA on P-256, SHA-256; a signature is r and s, 32 bytes each
    ed25519,  // EdDSA
};

inline constexpr int kLeastRsaBits = 2048;
inline constexpr int kMostRsaBits = 8192;  // limits the cost of one check
inline constexpr std::size_t kMostRsaExponentBytes = 4;

/// A public key, for signatures of one kind only. Numbers are big-endian. Immutable; copies share the key. Thread-safe.
class VerifyKey {
public:
    /// Failure of all three (permanent, `bad_key`): what is wrong with the key.
    [[nodiscard]] static Result<VerifyKey> rsa(std::string_view modulus, std::string_view exponent);
    [[nodiscard]] static Result<VerifyKey> p256(std::string_view x, std::string_view y);
    [[nodiscard]] static Result<VerifyKey> ed25519(std::string_view x);

    [[nodiscard]] SignatureKind kind() const { return kind_; }

    /// Whether the owner of the private key signed exactly `bytes`. Does not block.
    [[nodiscard]] bool verifies(std::string_view bytes, std::string_view signature) const;

private:
    VerifyKey(SignatureKind kind, std::shared_ptr<evp_pkey_st> key) : kind_(kind), key_(std::move(key)) {}

    SignatureKind kind_;
    std::shared_ptr<evp_pkey_st> key_;
};

}  // namespace deliverd
