#include "base/signature.h"

#include <fmt/format.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>

#include <string>
#include <utility>

#include "base/handle.h"

namespace deliverd {

namespace {

constexpr std::size_t kP256Bytes = 32;
constexpr std::size_t kEd25519Bytes = 32;

using Number = Handle<BIGNUM, BN_free>;
using ParamBuilder = Handle<OSSL_PARAM_BLD, OSSL_PARAM_BLD_free>;
using Params = Handle<OSSL_PARAM, OSSL_PARAM_free>;
using KeyContext = Handle<EVP_PKEY_CTX, EVP_PKEY_CTX_free>;
using DigestContext = Handle<EVP_MD_CTX, EVP_MD_CTX_free>;
using EcdsaSignature = Handle<ECDSA_SIG, ECDSA_SIG_free>;
using Key = std::shared_ptr<EVP_PKEY>;

/// OpenSSL queues errors per thread, and TLS on the same thread would take these for its own.
class ErrorsDropped {
public:
    ErrorsDropped() { ERR_set_mark(); }
    ~ErrorsDropped() { ERR_pop_to_mark(); }
    ErrorsDropped(const ErrorsDropped&) = delete;
    ErrorsDropped& operator=(const ErrorsDropped&) = delete;
};

const unsigned char* octets_of(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
}

Number number_of(std::string_view big_endian) {
    return Number(BN_bin2bn(octets_of(big_endian), static_cast<int>(big_endian.size()), nullptr));
}

Failure bad_key(std::string message) {
    return permanent("bad_key", std::move(message));
}

/// Null when OpenSSL refuses the key.
Key key_from(const char* type, OSSL_PARAM_BLD* parts) {
    const Params params(OSSL_PARAM_BLD_to_param(parts));
    const KeyContext context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
    EVP_PKEY* key = nullptr;
    if (!params || !context || EVP_PKEY_fromdata_init(context.get()) != 1 ||
        EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, params.get()) != 1) {
        return nullptr;
    }
    return {key, EVP_PKEY_free};
}

bool is_on_curve(const Key& key) {
    const KeyContext context(EVP_PKEY_CTX_new_from_pkey(nullptr, key.get(), nullptr));
    return context && EVP_PKEY_public_check(context.get()) == 1;
}

/// The signature in DER, which OpenSSL reads; empty when its length is wrong.
std::string der_of(std::string_view signature) {
    if (signature.size() != 2 * kP256Bytes) return {};
    const EcdsaSignature pair(ECDSA_SIG_new());
    Number r = number_of(signature.substr(0, kP256Bytes));
    Number s = number_of(signature.substr(kP256Bytes));
    if (!pair || !r || !s || ECDSA_SIG_set0(pair.get(), r.get(), s.get()) != 1) return {};
    r.release();  // NOLINT(bugprone-unused-return-value): the pair owns both now
    s.release();  // NOLINT(bugprone-unused-return-value)
    const int size = i2d_ECDSA_SIG(pair.get(), nullptr);
    if (size <= 0) return {};
    std::string der(static_cast<std::size_t>(size), '\0');
    auto* out = reinterpret_cast<unsigned char*>(der.data());
    i2d_ECDSA_SIG(pair.get(), &out);
    return der;
}

}  // namespace

Result<VerifyKey> VerifyKey::rsa(std::string_view modulus, std::string_view exponent) {
    const ErrorsDropped dropped;
    // The key may come from a URL, and each check of a request with a huge one is slow.
    if (modulus.size() > kMostRsaBits / 8) return bad_key(fmt::format("the modulus has over {} bits", kMostRsaBits));
    if (exponent.size() > kMostRsaExponentBytes) {
        return bad_key(fmt::format("the exponent has over {} bytes", kMostRsaExponentBytes));
    }
    const Number n = number_of(modulus);
    const Number e = number_of(exponent);
    const ParamBuilder parts(OSSL_PARAM_BLD_new());
    if (!n || !e || !parts) return bad_key("OpenSSL has no memory");
    if (BN_num_bits(n.get()) < kLeastRsaBits) {
        return bad_key(fmt::format("the modulus has {} bits: RSA needs {}", BN_num_bits(n.get()), kLeastRsaBits));
    }
    // With an exponent of 1 anyone could sign.
    if (BN_is_odd(n.get()) != 1 || BN_is_odd(e.get()) != 1 || BN_is_one(e.get()) == 1) {
        return bad_key("modulus or exponent cannot be those of an RSA key");
    }
    OSSL_PARAM_BLD_push_BN(parts.get(), OSSL_PKEY_PARAM_RSA_N, n.get());
    OSSL_PARAM_BLD_push_BN(parts.get(), OSSL_PKEY_PARAM_RSA_E, e.get());
    Key key = key_from("RSA", parts.get());
    if (!key) return bad_key("it is not an RSA key");
    return VerifyKey(SignatureKind::rs256, std::move(key));
}

Result<VerifyKey> VerifyKey::p256(std::string_view x, std::string_view y) {
    const ErrorsDropped dropped;
    if (x.size() != kP256Bytes || y.size() != kP256Bytes) {
        return bad_key(fmt::format("the coordinates must have {} bytes each", kP256Bytes));
    }
    // OpenSSL takes a public point as one octet string: 04, x, y (SEC 1, 2.3.3).
    const std::string point = fmt::format("{}{}{}", static_cast<char>(POINT_CONVERSION_UNCOMPRESSED), x, y);
    const ParamBuilder parts(OSSL_PARAM_BLD_new());
    if (!parts) return bad_key("OpenSSL has no memory");
    OSSL_PARAM_BLD_push_utf8_string(parts.get(), OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0);
    OSSL_PARAM_BLD_push_octet_string(parts.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size());
    Key key = key_from("EC", parts.get());
    if (!key || !is_on_curve(key)) return bad_key("the point is not on the curve P-256");
    return VerifyKey(SignatureKind::es256, std::move(key));
}

Result<VerifyKey> VerifyKey::ed25519(std::string_view x) {
    const ErrorsDropped dropped;
    if (x.size() != kEd25519Bytes) return bad_key(fmt::format("x must have {} bytes", kEd25519Bytes));
    EVP_PKEY* key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, octets_of(x), x.size());
    if (key == nullptr) return bad_key("it is not an Ed25519 key");
    return VerifyKey(SignatureKind::ed25519, Key(key, EVP_PKEY_free));
}

bool VerifyKey::verifies(std::string_view bytes, std::string_view signature) const {
    const ErrorsDropped dropped;
    const std::string given = kind_ == SignatureKind::es256 ? der_of(signature) : std::string(signature);
    const DigestContext context(EVP_MD_CTX_new());
    // Ed25519 hashes the bytes itself.
    const EVP_MD* digest = kind_ == SignatureKind::ed25519 ? nullptr : EVP_sha256();
    return context && EVP_DigestVerifyInit(context.get(), nullptr, digest, nullptr, key_.get()) == 1 &&
           EVP_DigestVerify(context.get(), octets_of(given), given.size(), octets_of(bytes), bytes.size()) == 1;
}

}  // namespace deliverd
