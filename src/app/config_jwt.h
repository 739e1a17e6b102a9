// Tokens of an OpenID provider: `auth.jwt`.
#pragma once

#include <optional>
#include <vector>

#include "app/config.h"

namespace deliverd::app {

/// Reads `jwks_file` too; keys of a `jwks_url` come later (app/jwks_refresh.h). None without `auth.jwt`.
[[nodiscard]] std::optional<api::JwtAuth> make_jwt(const Values& values, std::vector<Problem>& problems);

/// Where its keys come from; empty without `auth.jwt`.
[[nodiscard]] JwksSource jwks_source(const Values& values);

/// "admin"; none for what is no role that somebody can have.
[[nodiscard]] std::optional<api::Role> role_named(std::string_view name);

}  // namespace deliverd::app
