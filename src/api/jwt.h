// JSON Web Tokens of an OpenID provider (RFC 7515, 7517, 7519): whether one was signed by the provider, for us, and is
// valid now, and what it says about its bearer. Pure; keys are fetched elsewhere (daemon/jwks_refresh.h).
//
// What a token's header says is only compared with what is known: the algorithm must be the one of the key, and keys
// that a token brings along (jwk, jku, x5c, x5u) are never looked at.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/current.h"
#include "base/signature.h"
#include "deliverd/result.h"

namespace deliverd::api {

inline constexpr std::size_t kMaxJwtBytes = 16UL * 1024;
inline constexpr std::size_t kMaxJwksBytes = 64UL * 1024;
inline constexpr std::size_t kMaxJwksKeys = 64;
inline constexpr std::size_t kMaxKeyIdBytes = 256;
inline constexpr std::size_t kMaxSubjectBytes = 255;                // OpenID Connect's own limit
inline constexpr Duration kClockLeeway = std::chrono::seconds(30);  // how far the provider's clock may be off

struct JwtKey {
    std::string id;  // `kid`; empty: none
    VerifyKey key;
};

struct JwtKeySet {
    std::vector<JwtKey> keys;
    std::vector<std::string> left_out;  // why, one line for each key that is not among `keys`
};

/// The provider's keys as they are at the moment. Without any, no token is accepted.
using JwtKeys = Current<JwtKeySet>;

/// A JWK Set. Keys that are not for RS256, ES256 or EdDSA (Ed25519) signatures, broken ones, weak ones, and a second
/// one with the same `kid` and algorithm are left out. Failure (permanent, `bad_jwks`): longer than kMaxJwksBytes, more
/// than kMaxJwksKeys keys, no JSON, a member twice in one object, no list `keys`.
[[nodiscard]] Result<JwtKeySet> parse_jwks(std::string_view text);

struct JwtRules {
    std::string issuer;      // is `iss`
    std::string audience;    // is `aud`, or one of it
    std::string role_claim;  // the name of a claim or, if there is none, a path with dots: realm_access.roles
};

struct JwtClaims {
    std::string subject;             // `sub`: 1 to kMaxSubjectBytes bytes of one line
    std::vector<std::string> roles;  // the text in the role claim, or the texts in its list
};

/// The code for tokens by a key that is not known (yet, or any more).
inline constexpr char kUnknownJwtKey[] = "jwt_key";

/// Whether a bearer token has the form of a JWT: three parts with dots between them.
[[nodiscard]] bool is_jwt(std::string_view token);

/// What the provider says of a token's bearer. At most one signature is checked. Failure (permanent): the code is one
/// of a few words, for the log and for api_refused_total; the message is for the log only:
///   jwt_malformed   no JWT that we read: form, size, JSON, `typ`, `crit`
///   jwt_algorithm   not RS256, ES256 or EdDSA, or not the algorithm of the key
///   jwt_key         no known key has its `kid`; without a `kid`, there is not exactly one key
///   jwt_signature   not by that key
///   jwt_issuer, jwt_audience, jwt_expired, jwt_not_yet_valid
///   jwt_claims      `exp` or `sub` is missing, or a claim is not what it should be
[[nodiscard]] Result<JwtClaims> verify_jwt(std::string_view token, const JwtKeySet& keys, const JwtRules& rules,
                                           WallTime now);

}  // namespace deliverd::api
