#include "api/auth.h"

#include <algorithm>
#include <array>

#include "base/sha256.h"
#include "base/text.h"
#include "deadletter/topic_pattern.h"
#include "store/dead_letters.h"

namespace deliverd::api {

namespace {

std::string_view bearer_token(const http::Request& request) {
    static constexpr std::string_view kScheme = "bearer ";
    std::string_view value = request.header("Authorization");
    if (!equal_ignoring_case(value.substr(0, kScheme.size()), kScheme)) return {};
    value.remove_prefix(kScheme.size());
    while (value.starts_with(' ')) value.remove_prefix(1);
    return value;
}

Result<Caller> jwt_caller(std::string_view token, const JwtAuth& jwt, WallTime now) {
    const auto claims = verify_jwt(token, *jwt.keys->get(), jwt.rules, now);
    if (!claims) {
        // The provider may have changed its keys since they were read.
        if (claims.error().code == kUnknownJwtKey && jwt.on_unknown_key) jwt.on_unknown_key();
        return Failure(claims.error());
    }
    // With a prefix, so that in the audit no subject can pass for a configured token.
    Caller caller{"jwt:" + claims->subject, Role::none};
    for (const auto& [value, role] : jwt.roles) {
        if (std::ranges::find(claims->roles, value) != claims->roles.end()) caller.role = std::max(caller.role, role);
    }
    return caller;
}

}  // namespace

bool Scope::allows(std::string_view topic) const {
    return !topics || std::ranges::any_of(*topics, [topic](const std::string& pattern) {
        return deadletter::matches_pattern(topic, pattern);
    });
}

bool Scope::allows(const store::Letter& letter) const {
    return allows(letter.provenance.original_topic) || (letter.topic && allows(*letter.topic));
}

Result<Caller> caller_of(const http::Request& request, const AuthOptions& auth, WallTime now) {
    if (!auth.enabled) return Caller{"anonymous", Role::admin};
    const auto token = bearer_token(request);
    if (token.empty()) return permanent("token", "");
    if (auth.jwt && is_jwt(token)) return jwt_caller(token, *auth.jwt, now);
    const std::string digest = sha256_hex(token);
    // No return at the first match, and digests instead of tokens: the time taken reveals nothing about the tokens.
    std::optional<Caller> caller;
    const auto look_at = [&](const std::vector<Token>& tokens) {
        for (const auto& known : tokens) {
            const bool is_it = equal_in_constant_time(known.sha256, digest);
            if (is_it && (!known.expires_at || now < *known.expires_at)) {
                caller = Caller{known.name, known.role, known.scope};
            }
        }
    };
    look_at(auth.tokens);
    if (auth.file_tokens) look_at(*auth.file_tokens->get());
    if (!caller) return permanent("token", "");
    return std::move(*caller);
}

std::string_view role_name(Role role) {
    static constexpr std::array<std::string_view, 4> kNames{"none", "viewer", "operator", "admin"};
    return kNames.at(static_cast<std::size_t>(role));
}

}  // namespace deliverd::api
