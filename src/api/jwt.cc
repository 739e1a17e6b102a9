#include "api/jwt.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "api/jwt_json.h"
#include "base/canonical_json.h"
#include "base/hmac.h"
#include "base/text.h"
#include "base/try.h"

namespace deliverd::api {

namespace {

constexpr std::size_t kMaxShownBytes = 64;       // of a token's words, in the log
constexpr double kLastSecond = 253'402'300'799;  // of the year 9999

Failure jwt_refused(std::string_view code, std::string message) {
    return permanent(std::string(code), std::move(message));
}

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
    if (!text) return jwt_refused("jwt_malformed", fmt::format("the {} is not base64url", name));
    auto read = read_jwt_object(*text);
    if (!read) return jwt_refused("jwt_malformed", fmt::format("the {} {}", name, read.error().message));
    return read;
}

std::optional<SignatureKind> kind_named(std::string_view algorithm) {
    for (const auto kind : {SignatureKind::rs256, SignatureKind::es256, SignatureKind::ed25519}) {
        if (algorithm == algorithm_name(kind)) return kind;
    }
    return std::nullopt;
}

/// A token that was made for something else than access (logout+jwt, secevent+jwt, …) says so in its type.
bool is_access_type(std::string_view type) {
    const std::string lower = ascii_lower(type);
    return lower == "jwt" || lower == "at+jwt" || lower == "application/at+jwt";
}

Result<const JwtKey*> find_key(const JwtObject& header, const JwtKeySet& keys) {
    if (header.contains("crit")) return jwt_refused("jwt_malformed", "the header has `crit`: extensions are not known");
    if (header.contains("typ") && !is_access_type(text_in(header, "typ").value_or(""))) {
        return jwt_refused("jwt_malformed", "the type is neither JWT nor at+jwt");
    }
    const auto kind = kind_named(text_in(header, "alg").value_or(""));
    if (!kind) return jwt_refused("jwt_algorithm", "the algorithm is not RS256, ES256 or EdDSA");
    const auto id = text_in(header, "kid");
    if (!id && header.contains("kid")) return jwt_refused("jwt_malformed", "`kid` is not a text");
    if (keys.keys.empty()) return jwt_refused(kUnknownJwtKey, "no key of the provider is known");
    if (!id && keys.keys.size() > 1)
        return jwt_refused(kUnknownJwtKey, "the token has no `kid`, and there are several keys");
    bool id_is_known = !id;
    for (const JwtKey& key : keys.keys) {
        if (id && key.id != *id) continue;
        if (key.key.kind() == *kind) return &key;
        id_is_known = true;
    }
    if (id_is_known) return jwt_refused("jwt_algorithm", "the algorithm is not that of the key");
    return jwt_refused(kUnknownJwtKey,
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
    if (!expires) return jwt_refused("jwt_claims", "the token has no `exp` that is a time");
    if (seconds >= *expires + leeway) return jwt_refused("jwt_expired", "the token has expired");
    if (!claims.contains("nbf")) return {};
    const auto begins = time_in(claims, "nbf");
    if (!begins) return jwt_refused("jwt_claims", "`nbf` is not a time");
    if (seconds + leeway < *begins) return jwt_refused("jwt_not_yet_valid", "the token is not valid yet");
    return {};
}

Result<void> check_origin(const JwtObject& claims, const JwtRules& rules) {
    if (text_in(claims, "iss") != rules.issuer) {
        return jwt_refused("jwt_issuer", fmt::format("the token's issuer is not {}", rules.issuer));
    }
    const auto* audience = claims.if_contains("aud");
    if (audience == nullptr || !is_or_holds(*audience, rules.audience)) {
        return jwt_refused("jwt_audience", fmt::format("the token is not for the audience {}", rules.audience));
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

std::vector<std::string> roles_in(const JwtObject& claims, std::string_view name) {
    std::vector<std::string> roles;
    const auto* claim = find_claim(claims, name);
    if (claim == nullptr) return roles;
    if (claim->is_string()) roles.emplace_back(claim->get_string());
    if (!claim->is_array()) return roles;
    for (const auto& entry : claim->get_array()) {
        if (entry.is_string()) roles.emplace_back(entry.get_string());
    }
    return roles;
}

Result<JwtClaims> read_claims(const JwtObject& claims, const JwtRules& rules, WallTime now) {
    TRY(check_origin(claims, rules));
    TRY(check_times(claims, now));
    const auto subject = text_in(claims, "sub").value_or("");
    if (subject.empty() || subject.size() > kMaxSubjectBytes || one_line(subject) != subject) {
        return jwt_refused("jwt_claims", fmt::format("`sub` is not one line of 1 to {} bytes", kMaxSubjectBytes));
    }
    return JwtClaims{std::string(subject), roles_in(claims, rules.role_claim)};
}

}  // namespace

std::string_view algorithm_name(SignatureKind kind) {
    switch (kind) {
        case SignatureKind::rs256:
            return "RS256";
        case SignatureKind::es256:
            return "ES256";
        case SignatureKind::ed25519:
            return "EdDSA";
    }
    return "unknown";
}

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

std::optional<std::string_view> text_in(const JwtObject& object, std::string_view name) {
    const auto* value = object.if_contains(name);
    if (value == nullptr || !value->is_string()) return std::nullopt;
    return value->get_string();
}

bool is_or_holds(const boost::json::value& value, std::string_view text) {
    if (value.is_string()) return value.get_string() == text;
    return value.is_array() && std::ranges::any_of(value.get_array(), [text](const boost::json::value& entry) {
               return entry.is_string() && entry.get_string() == text;
           });
}

bool is_jwt(std::string_view token) {
    return split_jwt(token).has_value();
}

Result<JwtClaims> verify_jwt(std::string_view token, const JwtKeySet& keys, const JwtRules& rules, WallTime now) {
    if (token.size() > kMaxJwtBytes) {
        return jwt_refused("jwt_malformed", fmt::format("the token is longer than {} bytes", kMaxJwtBytes));
    }
    const auto parts = split_jwt(token);
    if (!parts) return jwt_refused("jwt_malformed", "the token does not have three parts");
    TRY_ASSIGN(const auto header, read_part(parts->header, "header"));
    TRY_ASSIGN(const auto key, find_key(header, keys));
    const auto signature = base64url_decoded(parts->signature);
    if (!signature) return jwt_refused("jwt_malformed", "the signature is not base64url");
    if (!key->key.verifies(parts->signed_bytes, *signature)) {
        return jwt_refused("jwt_signature", "the signature is not that of the key");
    }
    const auto claims = read_part(parts->payload, "payload");  // only now: until here anyone may have written it
    if (!claims) return Failure(claims.error());
    return read_claims(*claims, rules, now);
}

}  // namespace deliverd::api
