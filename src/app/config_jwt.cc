#include "app/config_jwt.h"

#include <fmt/format.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <utility>

#include "sink/http/http_sink.h"
#include "sink/http/token_hosts.h"

namespace deliverd::app {

namespace {

class JwtBuilder {
public:
    JwtBuilder(const Values& values, std::vector<Problem>& problems) : values_(values), problems_(problems) {}

    api::JwtAuth build() {
        api::JwtAuth jwt;
        jwt.rules = {needed("issuer", "the provider's URL, as the tokens have it in `iss`"),
                     needed("audience", "what the provider writes into `aud` of tokens for deliverd"),
                     values_.text("auth.jwt.role_claim")};
        if (jwt.rules.role_claim.empty()) problem("auth.jwt.role_claim", "is empty; name the claim that has the roles");
        jwt.roles = roles();
        jwt.keys = std::make_shared<api::JwtKeys>(keys());
        return jwt;
    }

private:
    void problem(const std::string& where, std::string_view message) {
        const int line = values_.line_of(where);
        problems_.push_back({line > 0 ? line : values_.line_of("auth.jwt"), fmt::format("{} {}", where, message)});
    }

    std::string needed(std::string_view name, std::string_view what) {
        const std::string path = fmt::format("auth.jwt.{}", name);
        std::string text = values_.text(path);
        if (text.empty()) problem(path, fmt::format("is missing: {}", what));
        return text;
    }

    std::vector<std::pair<std::string, api::Role>> roles() {
        std::vector<std::pair<std::string, api::Role>> out;
        for (const auto& [claim, name] : values_.text_map("auth.jwt.roles")) {
            if (const auto role = role_named(name)) {
                out.emplace_back(claim, *role);
            } else {
                problem("auth.jwt.roles." + claim, fmt::format("must be viewer, operator or admin, not \"{}\"", name));
            }
        }
        if (values_.text_map("auth.jwt.roles").empty()) {
            problem("auth.jwt.roles",
                    "is missing: say which value of the role claim is which role, such as "
                    "{ deliverd-ops: operator }");
        }
        return out;
    }

    api::JwtKeySet keys() {
        const JwksSource source = jwks_source(values_);
        if (source.file.empty() == source.url.empty()) {
            problem("auth.jwt", "needs the provider's keys: give either jwks_url or jwks_file");
            return {};
        }
        if (!source.url.empty()) check_url(source);
        if (source.file.empty()) return {};
        if (!source.ca_file.empty()) problem("auth.jwt.ca_file", "is for jwks_url; remove it");
        const std::atomic<bool> stopped = false;
        auto keys = load_jwks(source, stopped).and_then([](const std::string& text) { return api::parse_jwks(text); });
        if (keys) return std::move(*keys);
        problem("auth.jwt.jwks_file", fmt::format("cannot be used: {}", keys.error().message));
        return {};
    }

    void check_url(const JwksSource& source) {
        if (const auto good = sink::check_http_url(source.url); !good) {
            problem("auth.jwt.jwks_url", good.error().message);
        } else if (!sink::is_guarded_url(source.url)) {
            problem("auth.jwt.jwks_url",
                    "must be https, or http to a loopback address: whoever can change the keys on "
                    "their way can sign tokens");
        }
        if (!source.ca_file.empty() && !std::ifstream(source.ca_file).good()) {
            problem("auth.jwt.ca_file", fmt::format("cannot be read: {}", source.ca_file));
        }
    }

    const Values& values_;
    std::vector<Problem>& problems_;
};

}  // namespace

std::optional<api::Role> role_named(std::string_view name) {
    if (name == "viewer") return api::Role::viewer;
    if (name == "operator") return api::Role::operator_;
    if (name == "admin") return api::Role::admin;
    return std::nullopt;
}

JwksSource jwks_source(const Values& values) {
    return {values.text("auth.jwt.jwks_file"), values.text("auth.jwt.jwks_url"), values.text("auth.jwt.ca_file")};
}

std::optional<api::JwtAuth> make_jwt(const Values& values, std::vector<Problem>& problems) {
    if (values.line_of("auth.jwt") == 0) return std::nullopt;
    return JwtBuilder(values, problems).build();
}

}  // namespace deliverd::app
