#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <utility>

#include "config/finish.h"
#include "sink/http/http_options.h"
#include "sink/http/token_hosts.h"

namespace deliverd::config {

namespace {

constexpr const char* kSection = "auth.jwt";

/// At the setting if it is given, else at the section; the message begins with the setting.
void add_problem(Problems& problems, const std::string& path, std::string_view message) {
    const bool given = problems.values().line_of(path) > 0;
    problems.add(given ? path : kSection, fmt::format("{} {}", path, message));
}

std::optional<api::Role> role_named(std::string_view name) {
    if (name == "viewer") return api::Role::viewer;
    if (name == "operator") return api::Role::operator_;
    if (name == "admin") return api::Role::admin;
    return std::nullopt;
}

std::vector<std::pair<std::string, api::Role>> make_roles(const TextMap& names, Problems& problems) {
    std::vector<std::pair<std::string, api::Role>> out;
    for (const auto& [claim, name] : names) {
        if (const auto role = role_named(name)) {
            out.emplace_back(claim, *role);
        } else {
            add_problem(problems, "auth.jwt.roles." + claim,
                        fmt::format("must be viewer, operator or admin, not \"{}\"", name));
        }
    }
    if (names.empty()) {
        add_problem(problems, "auth.jwt.roles",
                    "is missing: map values of the role claim to roles, such as { deliverd-ops: operator }");
    }
    return out;
}

void check_url(const JwksSource& source, Problems& problems) {
    if (const auto good = sink::check_http_url(source.url); !good) {
        add_problem(problems, "auth.jwt.jwks_url", good.error().message);
    } else if (!sink::is_guarded_url(source.url)) {
        add_problem(problems, "auth.jwt.jwks_url",
                    "must be https, or http to a loopback address: whoever can change the keys in transit can sign "
                    "tokens");
    }
    if (!source.ca_file.empty() && !std::ifstream(source.ca_file).good()) {
        add_problem(problems, "auth.jwt.ca_file", fmt::format("cannot be read: {}", source.ca_file));
    }
}

api::JwtKeySet make_keys(const JwksSource& source, Problems& problems) {
    if (source.file.empty() == source.url.empty()) {
        add_problem(problems, kSection, "needs the provider's keys: give either jwks_url or jwks_file");
        return {};
    }
    if (!source.url.empty()) check_url(source, problems);
    if (source.file.empty()) return {};
    if (!source.ca_file.empty()) add_problem(problems, "auth.jwt.ca_file", "is for jwks_url; remove it");
    auto keys = read_secret_file(source.file).and_then([](const std::string& text) { return api::parse_jwks(text); });
    if (keys) return std::move(*keys);
    add_problem(problems, "auth.jwt.jwks_file", fmt::format("cannot be used: {}", keys.error().message));
    return {};
}

}  // namespace

std::optional<api::JwtAuth> make_jwt(const Draft& draft, Problems& problems) {
    if (problems.values().line_of(kSection) == 0) return std::nullopt;
    const api::JwtRules& rules = draft.auth.jwt;
    if (rules.issuer.empty()) {
        add_problem(problems, "auth.jwt.issuer", "is missing: the provider's URL, as the tokens have it in `iss`");
    }
    if (rules.audience.empty()) {
        add_problem(problems, "auth.jwt.audience",
                    "is missing: what the provider writes into `aud` of tokens for deliverd");
    }
    if (rules.role_claim.empty()) {
        add_problem(problems, "auth.jwt.role_claim", "is empty; name the claim that has the roles");
    }
    api::JwtAuth jwt;
    jwt.rules = rules;
    jwt.roles = make_roles(draft.auth.jwt_roles, problems);
    jwt.keys = std::make_shared<api::JwtKeys>(make_keys(draft.config.jwks, problems));
    return jwt;
}

}  // namespace deliverd::config
