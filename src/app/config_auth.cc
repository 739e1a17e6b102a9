#include "app/config_auth.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/sha256.h"

namespace deliverd::app {

namespace {

constexpr std::size_t kSha256HexLength = 64;

bool is_sha256(std::string_view text) {
    return text.size() == kSha256HexLength &&
           std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// Tokens that stand in tutorials and that people try first.
constexpr std::array<std::string_view, 16> kWellKnownTokens{
    "",    "test",   "token",    "secret",   "password", "changeme", "change-me", "admin",
    "ops", "viewer", "operator", "deliverd", "example",  "demo",     "hello",     "123456"};

/// Whether it is the hash of one of them, also with the line break that `echo` puts behind it.
bool is_well_known(std::string_view sha256) {
    return std::ranges::any_of(kWellKnownTokens, [sha256](std::string_view word) {
        return sha256_hex(word) == sha256 || sha256_hex(std::string(word) + "\n") == sha256;
    });
}

class AuthBuilder {
public:
    AuthBuilder(const Values& values, std::vector<Problem>& problems) : values_(values), problems_(problems) {}

    api::AuthOptions build() {
        api::AuthOptions auth;
        auth.open_metrics = values_.boolean("server.open_metrics");
        for (std::size_t i = 0; i < values_.entries("auth.tokens"); ++i) auth.tokens.push_back(token(i));
        auth.enabled = !auth.tokens.empty();
        check_mode(auth);
        auth.doors = doors(auth.enabled);
        return auth;
    }

private:
    void problem(const std::string& where, std::string message) {
        problems_.push_back({values_.line_of(where), std::move(message)});
    }

    void check_mode(const api::AuthOptions& auth) {
        const std::string mode = values_.text("auth.mode");
        if (mode == "none" && auth.enabled) {
            problem("auth.mode", "auth.mode is none, but auth.tokens has entries; remove one of the two");
        }
        if (mode != "tokens" && !auth.enabled && values_.line_of("auth.tokens") > 0) {
            problem("auth.tokens",
                    "auth.tokens is empty, so that anyone may do everything; give tokens, or state auth.mode: none "
                    "without the list");
        }
        if (mode == "tokens" && !auth.enabled) problem("auth.mode", "auth.mode is tokens, but auth.tokens is empty");
        const std::string host = values_.text("server.host");
        if (mode.empty() && !auth.enabled && !api::is_loopback(host)) {
            problem("server.host",
                    fmt::format("server.host {} can be reached from outside, and anyone could use the API; give "
                                "auth.tokens, state auth.mode: none, or bind 127.0.0.1",
                                host));
        }
    }

    api::Token token(std::size_t index) {
        const std::string path = fmt::format("auth.tokens[{}]", index);
        api::Token token;
        token.name = values_.text(path + ".name");
        token.sha256 = values_.text(path + ".sha256");
        const std::string role = values_.text(path + ".role");
        token.role = role == "admin" ? api::Role::admin : role == "operator" ? api::Role::operator_ : api::Role::viewer;
        if (token.name.empty()) problem(path, path + " needs a name");
        std::ranges::transform(token.sha256, token.sha256.begin(),
                               [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; });
        if (!is_sha256(token.sha256)) {
            problem(values_.has(path + ".sha256") ? path + ".sha256" : path,
                    path + ".sha256 must be the 64 hex digits of the token's SHA-256; `deliverd token new` makes both");
        } else if (is_well_known(token.sha256)) {
            problem(path + ".sha256", path +
                                          ".sha256 is that of a word anyone would try; make a token with "
                                          "`deliverd token new --name NAME --role ROLE`");
        }
        return token;
    }

    /// A token is proof enough. Without one, the names that requests carry must do; where `auth.mode: none` states that
    /// something else guards the door, that decides about names too, unless some are given.
    api::DoorOptions doors(bool has_tokens) {
        api::DoorOptions doors;
        doors.allowed_hosts = values_.text_list("server.allowed_hosts");
        doors.check_origin = !has_tokens;
        doors.check_host = !has_tokens && (values_.text("auth.mode") != "none" || !doors.allowed_hosts.empty());
        for (const std::string& name : doors.allowed_hosts) {
            if (api::is_host_name(name)) continue;
            problem("server.allowed_hosts",
                    fmt::format("server.allowed_hosts: \"{}\" is not a name or name:port, such as deliverd.internal",
                                name));
        }
        return doors;
    }

    const Values& values_;
    std::vector<Problem>& problems_;
};

}  // namespace

api::AuthOptions make_auth(const Values& values, std::vector<Problem>& problems) {
    return AuthBuilder(values, problems).build();
}

}  // namespace deliverd::app
