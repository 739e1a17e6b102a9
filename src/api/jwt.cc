#include "api/jwt.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <chrono>
#include <optional>
#include <utility>

#include "base/canonical_json.h"
#include "base/hmac.h"
#include "base/text.h"
#include "base/try.h"

namespace deliverd::api {

namespace {

constexpr std::size_t kMaxShownBytes = 64;       // of a key's id, in the log
constexpr double kLastSecond = 253'402'300'799;  // of the year 9999

using JwtObject = boost::json::object;

/// As `alg` names them.
constexpr std::array<std::pair<SignatureKind, std::string_view>, 3> kAlgorithms{
    {{SignatureKind::rs256, "RS256"}, {SignatureKind::es256, "ES256"}, {SignatureKind::ed25519, "EdDSA"}}};

/// The one object that `text` is. Failure (permanent): says why not ("is not JSON …"); also where an object has a
/// member twice, because readers differ about which one counts.
Result<JwtObject> read_jwt_object(std::string_view text) {
    const auto canonical = canonical_json(text);
    if (!canonical) {
        const bool twice = canonical.error().code == codes::kDuplicateKey;
        return permanent(canonical.error().code, twice ? "has a member twice" : "is not JSON");
    }
    boost::system::error_code error;
    auto value = boost::json::parse(*canonical, error);
    if (error) return permanent("bad_json", "is nested too deep");
    if (!value.is_object()) return permanent("bad_json", "is not a JSON object");
    return std::move(value.get_object());
}

/// A member that is a text; none where it is missing or anything else.
std::optional<std::string_view> text_in(const JwtObject& object, std::string_view name) {
    const auto* value = object.if_contains(name);
    if (value == nullptr || !value->is_string()) return std::nullopt;
    return value->get_string();
}

/// A value that is a text, or the texts in a list; none where there is no value (null).
std::vector<std::string_view> texts_of(const boost::json::value* value) {
    std::vector<std::string_view> texts;
    const auto add = [&](const boost::json::value& one) {
        if (one.is_string()) texts.push_back(one.get_string());
    };
    if (value != nullptr) add(*value);
    if (value != nullptr && value->is_array()) std::ranges::for_each(value->get_array(), add);
    return texts;
}

bool is_or_holds(const boost::json::value* value, std::string_view text) {
    const auto texts = texts_of(value);
    return std::ranges::find(texts, text) != texts.end();
}

// --- a set of keys -------------------------------------------------------------------------------------------------

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

Result<VerifyKey> key_of(const JwtObject& jwk) {
    const auto type = text_in(jwk, "kty");
    const auto curve = text_in(jwk, "crv");
    if (type == "RSA") {
        const auto n = bytes_in(jwk, "n");
        const auto e = bytes_in(jwk, "e");
        if (!n || !e) return unusable("n or e is not base64url");
        return VerifyKey::rsa(*n, *e);
    }
    const auto x = bytes_in(jwk, "x");
    if (type == "EC") {
        const auto y = bytes_in(jwk, "y");
        if (curve != "P-256") return unusable("its curve is not P-256");
        if (!x || !y) return unusable("x or y is not base64url");
        return VerifyKey::p256(*x, *y);
    }
    if (type == "OKP") {
        if (curve != "Ed25519") return unusable("its curve is not Ed25519");
        if (!x) return unusable("x is not base64url");
        return VerifyKey::ed25519(*x);
    }
    return unusable("its kty is not RSA, EC or OKP");
}

bool may_verify_with(const JwtObject& jwk) {
    if (jwk.contains("use") && text_in(jwk, "use") != "sig") return false;
    return !jwk.contains("key_ops") || is_or_holds(jwk.if_contains("key_ops"), "verify");
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
    const auto* const algorithm = std::ranges::find(kAlgorithms, key.kind(), &decltype(kAlgorithms)::value_type::first);
    // A key belongs to one algorithm, which its type decides, not the token (RFC 8725, 3.1).
    if (jwk->contains("alg") && text_in(*jwk, "alg") != algorithm->second) {
        return unusable(fmt::format("its alg is not {}", algorithm->second));
    }
    return JwtKey{std::string(id.value_or("")), std::move(key)};
}

std::string key_name(std::size_t number, const boost::json::value& value) {
    const auto* jwk = value.if_object();
    const auto id = jwk != nullptr ? text_in(*jwk, "kid") : std::nullopt;
    return id ? fmt::format("key \"{}\"", shorten(one_line(*id), kMaxShownBytes)) : fmt::format("key {}", number);
}

// --- a token -------------------------------------------------------------------------------------------------------

struct JwtParts {
    std::string_view header;
    std::string_view payload;
    std::string_view signature;
    std::string_view signed_bytes;  // header, dot and payload
};

std::optional<JwtParts> split_jwt(std::string_view token) {
    const auto first = token.find('.');
    const auto last = token.rfind('.');
    if (first == std::string_view::npos || token.find('.', first + 1) != last) return std::nullopt;
    return JwtParts{token.substr(0, first), token.substr(first + 1, last - first - 1), token.substr(last + 1),
                    token.substr(0, last)};
}

Result<JwtObject> read_part(std::string_view part, std::string_view name) {
    const auto text = base64url_decoded(part);
    if (!text) return permanent("jwt_malformed", fmt::format("the {} is not base64url", name));
    auto read = read_jwt_object(*text);
    if (!read) return permanent("jwt_malformed", fmt::format("the {} {}", name, read.error().message));
    return read;
}

/// A token that was made for something else than access (logout+jwt, secevent+jwt, …) says so in its type.
bool is_access_type(std::string_view type) {
    const std::string lower = ascii_lower(type);
    return lower == "jwt" || lower == "at+jwt" || lower == "application/at+jwt";
}

Result<const JwtKey*> find_key(const JwtObject& header, const JwtKeySet& keys) {
    // Extensions that a verifier must understand (RFC 7515, 4.1.11). We know none.
    if (header.contains("crit"))
        return permanent("jwt_malformed", "the header has `crit`: extensions are not supported");
    if (header.contains("typ") && !is_access_type(text_in(header, "typ").value_or(""))) {
        return permanent("jwt_malformed", "the type is neither JWT nor at+jwt");
    }
    const auto named = text_in(header, "alg").value_or("");
    const auto* const algorithm = std::ranges::find(kAlgorithms, named, &decltype(kAlgorithms)::value_type::second);
    if (algorithm == kAlgorithms.end()) return permanent("jwt_algorithm", "the algorithm is not RS256, ES256 or EdDSA");
    const auto id = text_in(header, "kid");
    if (!id && header.contains("kid")) return permanent("jwt_malformed", "`kid` is not a text");
    if (keys.keys.empty()) return permanent(kUnknownJwtKey, "no key of the provider is known");
    if (!id && keys.keys.size() > 1)
        return permanent(kUnknownJwtKey, "the token has no `kid`, and there are several keys");
    // One signature at most is checked, so a key is chosen by name. Two keys may share a `kid` if their algorithms
    // differ.
    bool id_is_known = !id;
    for (const JwtKey& key : keys.keys) {
        if (id && key.id != *id) continue;
        if (key.key.kind() == algorithm->first) return &key;
        id_is_known = true;
    }
    if (id_is_known) return permanent("jwt_algorithm", "the algorithm is not that of the key");
    return permanent(kUnknownJwtKey,
                     fmt::format("the provider has no key \"{}\"", shorten(one_line(*id), kMaxShownBytes)));
}

/// A claim that is a time, in seconds since 1970; none where it is anything else.
std::optional<double> time_in(const JwtObject& claims, std::string_view name) {
    const auto* value = claims.if_contains(name);
    if (value == nullptr || !value->is_number()) return std::nullopt;
    const auto seconds = value->to_number<double>();
    if (!(seconds >= 0 && seconds <= kLastSecond)) return std::nullopt;
    return seconds;
}

Result<void> check_times(const JwtObject& claims, WallTime now) {
    const double seconds = std::chrono::duration<double>(now.time_since_epoch()).count();
    const double leeway = to_seconds(kClockLeeway);
    const auto expires = time_in(claims, "exp");
    if (!expires) return permanent("jwt_claims", "the token has no `exp` that is a time");
    if (seconds >= *expires + leeway) return permanent("jwt_expired", "the token has expired");
    if (!claims.contains("nbf")) return {};
    const auto begins = time_in(claims, "nbf");
    if (!begins) return permanent("jwt_claims", "`nbf` is not a time");
    if (seconds + leeway < *begins) return permanent("jwt_not_yet_valid", "the token is not valid yet");
    return {};
}

Result<void> check_origin(const JwtObject& claims, const JwtRules& rules) {
    if (text_in(claims, "iss") != rules.issuer) {
        return permanent("jwt_issuer", fmt::format("the token's issuer is not {}", rules.issuer));
    }
    if (!is_or_holds(claims.if_contains("aud"), rules.audience)) {
        return permanent("jwt_audience", fmt::format("the token is not for the audience {}", rules.audience));
    }
    return {};
}

/// By its whole name; where there is none, by its path.
const boost::json::value* find_claim(const JwtObject& claims, std::string_view name) {
    if (const auto* whole = claims.if_contains(name)) return whole;
    const auto dot = name.find('.');
    if (dot == std::string_view::npos) return nullptr;
    const auto* outer = claims.if_contains(name.substr(0, dot));
    return outer != nullptr && outer->is_object() ? find_claim(outer->get_object(), name.substr(dot + 1)) : nullptr;
}

Result<JwtClaims> read_claims(const JwtObject& claims, const JwtRules& rules, WallTime now) {
    TRY(check_origin(claims, rules));
    TRY(check_times(claims, now));
    const auto subject = text_in(claims, "sub").value_or("");
    // Logs and audits name the subject as the actor.
    if (subject.empty() || subject.size() > kMaxSubjectBytes || one_line(subject) != subject) {
        return permanent("jwt_claims", fmt::format("`sub` is not one line of 1 to {} bytes", kMaxSubjectBytes));
    }
    const auto roles = texts_of(find_claim(claims, rules.role_claim));
    return JwtClaims{std::string(subject), {roles.begin(), roles.end()}};
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

bool is_jwt(std::string_view token) {
    return split_jwt(token).has_value();
}

Result<JwtClaims> verify_jwt(std::string_view token, const JwtKeySet& keys, const JwtRules& rules, WallTime now) {
    // Before anything is decoded: until the signature is checked, anybody may have written this.
    if (token.size() > kMaxJwtBytes) {
        return permanent("jwt_malformed", fmt::format("the token is longer than {} bytes", kMaxJwtBytes));
    }
    const auto parts = split_jwt(token);
    if (!parts) return permanent("jwt_malformed", "the token does not have three parts");
    TRY_ASSIGN(const auto header, read_part(parts->header, "header"));
    TRY_ASSIGN(const auto key, find_key(header, keys));
    const auto signature = base64url_decoded(parts->signature);
    if (!signature) return permanent("jwt_malformed", "the signature is not base64url");
    if (!key->key.verifies(parts->signed_bytes, *signature)) {
        return permanent("jwt_signature", "the signature is not that of the key");
    }
    // Only now: until here anyone may have written it.
    TRY_ASSIGN(const auto claims, read_part(parts->payload, "payload"));
    return read_claims(claims, rules, now);
}

}  // namespace deliverd::api
