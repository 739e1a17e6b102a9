#include "app/config_auth.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "app/config_jwt.h"
#include "base/sha256.h"
#include "base/text.h"
#include "deadletter/topic_pattern.h"
#include "http/tls.h"

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

class TokenReader {
public:
    TokenReader(const Values& values, std::vector<Problem>& problems) : values_(values), problems_(problems) {}

    std::vector<api::Token> all() {
        std::vector<api::Token> tokens;
        for (std::size_t i = 0; i < values_.entries("auth.tokens"); ++i) {
            tokens.push_back(one(fmt::format("auth.tokens[{}]", i)));
        }
        return tokens;
    }

private:
    void problem(const std::string& path, std::string_view name, std::string_view message) {
        const std::string where = fmt::format("{}.{}", path, name);
        problems_.push_back({values_.line_of(values_.has(where) ? where : path), fmt::format("{} {}", where, message)});
    }

    api::Token one(const std::string& path) {
        api::Token token;
        token.name = values_.text(path + ".name");
        if (token.name.empty()) problem(path, "name", "is missing: give the token a name");
        if (token.name.starts_with("jwt:")) {
            problem(path, "name",
                    "begins with jwt:, as callers of an OpenID provider do in the audit; name it otherwise");
        }
        token.role = role_named(values_.text(path + ".role")).value_or(api::Role::viewer);
        token.sha256 = sha256(path);
        if (const std::string expires = values_.text(path + ".expires_at"); !expires.empty()) {
            token.expires_at = parse_rfc3339(expires);
            if (!token.expires_at) {
                problem(path, "expires_at",
                        fmt::format("must be a time such as 2027-01-31T00:00:00Z, not \"{}\"", expires));
            }
        }
        if (values_.has(path + ".topics")) token.scope.topics = topics(path);
        return token;
    }

    /// An empty list is a mistake, and must not be taken for a token that is not limited.
    std::vector<std::string> topics(const std::string& path) {
        auto patterns = values_.text_list(path + ".topics");
        if (patterns.empty()) problem(path, "topics", "is empty; name topics, or leave it out for all of them");
        for (const std::string& pattern : patterns) {
            if (auto ok = deadletter::check_topic_pattern(pattern); !ok) {
                problem(path, "topics", fmt::format("has a wrong pattern: {}", ok.error().message));
            }
        }
        return patterns;
    }

    std::string sha256(const std::string& path) {
        std::string hash = values_.text(path + ".sha256");
        std::ranges::transform(hash, hash.begin(),
                               [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; });
        if (!is_sha256(hash)) {
            problem(path, "sha256",
                    "must be the 64 hex digits of the token's SHA-256; `deliverd token new` makes both");
        } else if (is_well_known(hash)) {
            problem(
                path, "sha256",
                "is that of a word anyone would try; make a token with `deliverd token new --name NAME --role ROLE`");
        }
        return hash;
    }

    const Values& values_;
    std::vector<Problem>& problems_;
};

bool has_tls(const Values& values) {
    return values.has("server.tls.cert_file");
}

class AuthBuilder {
public:
    AuthBuilder(const Values& values, std::vector<Problem>& problems) : values_(values), problems_(problems) {}

    api::AuthOptions build() {
        api::AuthOptions auth;
        auth.open_metrics = values_.boolean("server.open_metrics");
        auth.tokens = TokenReader(values_, problems_).all();
        auth.file_tokens = file_tokens();
        auth.audit_reads = values_.boolean("auth.audit_reads");
        auth.jwt = make_jwt(values_, problems_);
        auth.enabled = !auth.tokens.empty() || auth.file_tokens || auth.jwt;
        check_mode(auth);
        check_audit(auth);
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
            problem(
                "auth.mode",
                "auth.mode is none, but there are auth.tokens, an auth.tokens_file or auth.jwt; remove one of the two");
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
        const bool is_safe = api::is_loopback(host) || has_tls(values_) || values_.boolean("server.insecure_http");
        if (auth.enabled && !is_safe) {
            problem(
                "server.host",
                fmt::format("server.host {} can be reached from outside, and tokens would cross the network in plain "
                            "HTTP; give server.tls a certificate, or put TLS in front and state server.insecure_http: "
                            "true, or bind 127.0.0.1",
                            host));
        }
    }

    /// An audit that is asked for must not get lost for another setting.
    void check_audit(const api::AuthOptions& auth) {
        const std::string level = values_.text("log.level");
        if (!auth.audit_reads || level == "info" || level == "debug") return;
        problem("auth.audit_reads",
                fmt::format("auth.audit_reads writes lines of level info, but log.level is {}; make it info", level));
    }

    std::shared_ptr<api::TokenList> file_tokens() {
        const std::string path = values_.text("auth.tokens_file");
        if (path.empty()) return nullptr;
        std::vector<std::string> wrong;
        auto tokens = read_tokens_file(path, wrong);
        for (const std::string& message : wrong) problem("auth.tokens_file", "auth.tokens_file: " + message);
        return std::make_shared<api::TokenList>(std::move(tokens));
    }

    /// A token is proof enough. Without one, the names that requests carry must do; where `auth.mode: none` states that
    /// something else guards the door, that decides about names too, unless some are given.
    api::DoorOptions doors(bool has_tokens) {
        api::DoorOptions doors;
        doors.allowed_hosts = values_.text_list("server.allowed_hosts");
        doors.check_origin = !has_tokens;
        doors.https_only = has_tls(values_);
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

std::vector<api::Token> read_tokens_file(const std::string& path, std::vector<std::string>& problems) {
    const auto text = read_secret_file(path);
    if (!text) {
        problems.push_back(text.error().message);
        return {};
    }
    std::vector<Problem> found;
    Node list = parse_yaml(*text, found);
    // As if it stood in the configuration, so that both are read and checked alike.
    Node auth{Node::Kind::map, 1, {}, {{"tokens", 1, std::move(list)}}, {}};
    const Node root{Node::Kind::map, 1, {}, {{"auth", 1, std::move(auth)}}, {}};
    const Values values = read_values(root, path, [](const std::string&) { return std::nullopt; }, found);
    auto tokens = TokenReader(values, found).all();
    for (const Problem& problem : found)
        problems.push_back(fmt::format("{}:{}: {}", path, problem.line, problem.message));
    return tokens;
}

std::optional<http::TlsFiles> make_tls(const Values& values, std::vector<Problem>& problems) {
    http::TlsFiles files{values.text("server.tls.cert_file"), values.text("server.tls.key_file"),
                         values.text("server.tls.client_ca_file")};
    if (values.line_of("server.tls") == 0) return std::nullopt;
    const auto wrong = [&](std::string message) {
        problems.push_back({values.line_of("server.tls"), std::move(message)});
    };
    if (files.cert_file.empty() || files.key_file.empty()) {
        wrong("server.tls needs both cert_file and key_file; give them, or remove server.tls to serve plain HTTP");
    } else if (const auto loaded = http::load_tls(files); !loaded) {
        wrong("server.tls: " + loaded.error().message);
    }
    return files;
}

api::AuthOptions make_auth(const Values& values, std::vector<Problem>& problems) {
    return AuthBuilder(values, problems).build();
}

}  // namespace deliverd::app
