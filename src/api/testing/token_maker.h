// For tests: an OpenID provider's keys and tokens.
#pragma once

#include <fmt/format.h>

#include <boost/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "api/jwt.h"
#include "base/testing/signing_key.h"

namespace deliverd::api {

/// header.payload.signature
[[nodiscard]] inline std::string signed_token(const SigningKey& key, std::string_view header,
                                              std::string_view payload) {
    const std::string bytes = base64url_encoded(header) + "." + base64url_encoded(payload);
    return bytes + "." + base64url_encoded(key.sign(bytes));
}

[[nodiscard]] inline boost::json::object jwk_of(const SigningKey& key, std::string_view id) {
    switch (key.kind()) {
        case SignatureKind::rs256:
            return {{"kty", "RSA"},
                    {"kid", id},
                    {"n", base64url_encoded(key.modulus())},
                    {"e", base64url_encoded(key.exponent())}};
        case SignatureKind::es256:
            return {{"kty", "EC"},
                    {"kid", id},
                    {"crv", "P-256"},
                    {"x", base64url_encoded(key.x())},
                    {"y", base64url_encoded(key.y())}};
        case SignatureKind::ed25519:
            break;
    }
    return {{"kty", "OKP"}, {"kid", id}, {"crv", "Ed25519"}, {"x", base64url_encoded(key.x())}};
}

[[nodiscard]] inline std::string jwks_of(boost::json::array keys) {
    return boost::json::serialize(boost::json::object{{"keys", std::move(keys)}});
}

}  // namespace deliverd::api
