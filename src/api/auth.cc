#include "api/auth.h"

#include <algorithm>

#include "base/sha256.h"
#include "base/text.h"

namespace deliverd::api {

namespace {

std::string_view bearer_token(const http::Request& request) {
    static constexpr std::string_view kScheme = "bearer ";
    std::string_view value = request.header("Authorization");
    if (value.size() <= kScheme.size()) return {};
    if (!equal_ignoring_case(value.substr(0, kScheme.size()), kScheme)) return {};
    value.remove_prefix(kScheme.size());
    while (value.starts_with(' ')) value.remove_prefix(1);
    return value;
}

Result<Caller> jwt_caller(std::string_view token, const JwtAuth& jwt, WallTime now) {
    const auto claims = verify_jwt(token, *jwt.keys->get(), jwt.rules, now);
    if (!claims) {
        if (claims.error().code == kUnknownJwtKey && jwt.on_unknown_key) jwt.on_unknown_key();
        return Failure(claims.error());
    }
    Caller caller{"jwt:" + claims->subject, Role::none};
    for (const auto& [value, role] : jwt.roles) {
        if (role > caller.role && std::ranges::find(claims->roles, value) != claims->roles.end()) caller.role = role;
    }
    return caller;
}

}  // namespace

Result<Caller> caller_of(const http::Request& request, const AuthOptions& auth, WallTime now) {
    if (!auth.enabled) return Caller{"anonymous", Role::admin};
    const auto token = bearer_token(request);
    if (token.empty()) return permanent("token", "");
    if (auth.jwt && is_jwt(token)) return jwt_caller(token, *auth.jwt, now);
    const std::string digest = sha256_hex(token);
    std::optional<Caller> caller;
    const auto look_at = [&](const std::vector<Token>& tokens) {
        for (const auto& known : tokens) {
            const bool is_it = equal_in_constant_time(known.sha256, digest);
            if (is_it && (!known.expires_at || now < *known.expires_at))
                caller = Caller{known.name, known.role, known.scope};
        }
    };
    look_at(auth.tokens);
    if (auth.file_tokens) look_at(*auth.file_tokens->get());
    if (!caller) return permanent("token", "");
    return std::move(*caller);
}

std::string_view role_name(Role role) {
    switch (role) {
        case Role::none:
            return "none";
        case Role::viewer:
            return "viewer";
        case Role::operator_:
            return "operator";
        case Role::admin:
            return "admin";
    }
    return "unknown";
}

}  // namespace deliverd::api
