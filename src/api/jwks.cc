#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "api/jwt.h"
#include "api/jwt_json.h"
#include "base/hmac.h"
#include "base/text.h"
#include "base/try.h"

namespace deliverd::api {

namespace {

constexpr std::size_t kMaxShownKeyIdBytes = 64;

Failure bad_jwks(std::string message) {
    return permanent("bad_jwks", std::move(message));
}

Failure unusable(std::string why) {
    return permanent("unusable", std::move(why));
}

/// A member's bytes; none where it is missing or not base64url.
std::optional<std::string> bytes_in(const JwtObject& jwk, std::string_view name) {
    const auto text = text_in(jwk, name);
    return text ? base64url_decoded(*text) : std::nullopt;
}

Result<VerifyKey> rsa_key(const JwtObject& jwk) {
    const auto n = bytes_in(jwk, "n");
    const auto e = bytes_in(jwk, "e");
    if (!n || !e) return unusable("n or e is not base64url");
    return VerifyKey::rsa(*n, *e);
}

Result<VerifyKey> ec_key(const JwtObject& jwk) {
    if (text_in(jwk, "crv") != "P-256") return unusable("its curve is not P-256");
    const auto x = bytes_in(jwk, "x");
    const auto y = bytes_in(jwk, "y");
    if (!x || !y) return unusable("x or y is not base64url");
    return VerifyKey::p256(*x, *y);
}

Result<VerifyKey> okp_key(const JwtObject& jwk) {
    if (text_in(jwk, "crv") != "Ed25519") return unusable("its curve is not Ed25519");
    const auto x = bytes_in(jwk, "x");
    if (!x) return unusable("x is not base64url");
    return VerifyKey::ed25519(*x);
}

Result<VerifyKey> key_of(const JwtObject& jwk) {
    const auto kty = text_in(jwk, "kty");
    if (kty == "RSA") return rsa_key(jwk);
    if (kty == "EC") return ec_key(jwk);
    if (kty == "OKP") return okp_key(jwk);
    return unusable("its kty is not RSA, EC or OKP");
}

bool may_verify_with(const JwtObject& jwk) {
    if (jwk.contains("use") && text_in(jwk, "use") != "sig") return false;
    const auto* operations = jwk.if_contains("key_ops");
    return operations == nullptr || is_or_holds(*operations, "verify");
}

Result<JwtKey> read_jwk(const boost::json::value& value) {
    const auto* jwk = value.if_object();
    if (jwk == nullptr) return unusable("it is not an object");
    const auto id = text_in(*jwk, "kid");
    if (jwk->contains("kid") && (!id || id->empty() || id->size() > kMaxKeyIdBytes)) {
        return unusable(fmt::format("its kid is not a text of 1 to {} bytes", kMaxKeyIdBytes));
    }
    if (!may_verify_with(*jwk)) return unusable("it is not for signatures");
    TRY_ASSIGN(auto key, key_of(*jwk));
    if (jwk->contains("alg") && text_in(*jwk, "alg") != algorithm_name(key.kind())) {
        return unusable(fmt::format("its alg is not {}", algorithm_name(key.kind())));
    }
    return JwtKey{std::string(id.value_or("")), std::move(key)};
}

std::string key_name(std::size_t number, const boost::json::value& value) {
    const auto* jwk = value.if_object();
    const auto id = jwk != nullptr ? text_in(*jwk, "kid") : std::nullopt;
    return id ? fmt::format("key \"{}\"", shorten(one_line(*id), kMaxShownKeyIdBytes)) : fmt::format("key {}", number);
}

}  // namespace

Result<JwtKeySet> parse_jwks(std::string_view text) {
    if (text.size() > kMaxJwksBytes) return bad_jwks(fmt::format("the key set is longer than {} bytes", kMaxJwksBytes));
    const auto set = read_jwt_object(text);
    if (!set) return bad_jwks(fmt::format("the key set {}", set.error().message));
    const auto* keys = set->if_contains("keys");
    if (keys == nullptr || !keys->is_array()) return bad_jwks("the key set has no list `keys`");
    if (keys->get_array().size() > kMaxJwksKeys) {
        return bad_jwks(fmt::format("the key set has more than {} keys", kMaxJwksKeys));
    }
    JwtKeySet out;
    for (const auto& value : keys->get_array()) {
        auto read = read_jwk(value);
        const bool twice = read && std::ranges::any_of(out.keys, [&](const JwtKey& other) {
                               return other.id == read->id && other.key.kind() == read->key.kind();
                           });
        if (read && !twice) {
            out.keys.push_back(std::move(*read));
            continue;
        }
        const std::string why = twice ? "another one has its kid and algorithm" : read.error().message;
        out.left_out.push_back(fmt::format("{}: {}", key_name(out.keys.size() + out.left_out.size() + 1, value), why));
    }
    return out;
}

}  // namespace deliverd::api
