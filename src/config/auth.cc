#include "config/auth.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "base/sha256.h"
#include "base/text.h"
#include "config/finish.h"
#include "config/settings.h"
#include "deadletter/topic_pattern.h"
#include "http/tls.h"

namespace deliverd::config {

namespace {

constexpr std::size_t kSha256HexLength = 64;

bool is_sha256(std::string_view text) {
    return text.size() == kSha256HexLength &&
           std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// Tokens from tutorials, which attackers try first.
constexpr std::array<std::string_view, 16> kWellKnownTokens{
    "",    "test",   "token",    "secret",   "password", "changeme", "change-me", "admin",
    "ops", "viewer", "operator", "deliverd", "example",  "demo",     "hello",     "123456"};

/// Whether it is the hash of one of them, also with the line break that `echo` adds.
bool is_well_known(std::string_view sha256) {
    return std::ranges::any_of(kWellKnownTokens, [sha256](std::string_view word) {
        return sha256_hex(word) == sha256 || sha256_hex(std::string(word) + "\n") == sha256;
    });
}

/// `name` is missing or wrong in the token at `path`.
void token_problem(Problems& problems, const std::string& path, std::string_view name, std::string_view message) {
    const std::string where = fmt::format("{}.{}", path, name);
    problems.add(problems.values().has(where) ? where : path, fmt::format("{} {}", where, message));
}

/// An empty list is a mistake, and must not mean a token without limits.
void check_topics(const std::vector<std::string>& topics, const std::string& path, Problems& problems) {
    if (topics.empty())
        token_problem(problems, path, "topics", "is empty; name topics, or leave it out for all of them");
    for (const std::string& pattern : topics) {
        if (auto ok = deadletter::check_topic_pattern(pattern); !ok) {
            token_problem(problems, path, "topics", fmt::format("has a wrong pattern: {}", ok.error().message));
        }
    }
}

api::Token make_token(const std::string& path, Problems& problems) {
    const auto wrong = [&](std::string_view name, std::string_view message) {
        token_problem(problems, path, name, message);
    };
    TokenDraft draft;
    fill(problems.values(), "auth.tokens[]", path, &draft);
    api::Token& token = draft.token;
    if (token.name.empty()) wrong("name", "is missing: give the token a name");
    if (token.name.starts_with("jwt:")) {
        wrong("name", "begins with jwt:, as the audit names callers of an OpenID provider; choose another name");
    }
    if (!draft.expires_at.empty()) {
        token.expires_at = parse_rfc3339(draft.expires_at);
        if (!token.expires_at) {
            wrong("expires_at",
                  fmt::format("must be a time such as 2027-01-31T00:00:00Z, not \"{}\"", draft.expires_at));
        }
    }
    if (problems.values().has(path + ".topics")) {
        token.scope.topics = draft.topics.value_or(std::vector<std::string>());
        check_topics(*token.scope.topics, path, problems);
    }
    token.sha256 = ascii_lower(token.sha256);
    if (!is_sha256(token.sha256)) {
        wrong("sha256", "must be the 64 hex digits of the token's SHA-256; `deliverd token new` makes both");
    } else if (is_well_known(token.sha256)) {
        wrong("sha256",
              "is that of a word anyone would try; make a token with `deliverd token new --name NAME --role ROLE`");
    }
    return token;
}

std::vector<api::Token> make_tokens(Problems& problems) {
    std::vector<api::Token> tokens;
    for (std::size_t i = 0; i < problems.values().entries("auth.tokens"); ++i) {
        tokens.push_back(make_token(fmt::format("auth.tokens[{}]", i), problems));
    }
    return tokens;
}

std::shared_ptr<api::TokenList> make_file_tokens(const std::string& path, Problems& problems) {
    if (path.empty()) return nullptr;
    std::vector<std::string> wrong;
    auto tokens = read_tokens_file(path, wrong);
    for (const std::string& message : wrong) problems.add("auth.tokens_file", "auth.tokens_file: " + message);
    return std::make_shared<api::TokenList>(std::move(tokens));
}

void check_mode(const Draft& draft, Problems& problems) {
    const bool enabled = draft.config.auth.enabled;
    const std::string& mode = draft.auth.mode;
    if (mode == "none" && enabled) {
        problems.add("auth.mode",
                     "auth.mode is none, but there are auth.tokens, an auth.tokens_file or auth.jwt; remove one of the "
                     "two");
    }
    if (mode != "tokens" && !enabled && problems.values().line_of("auth.tokens") > 0) {
        problems.add("auth.tokens",
                     "auth.tokens is empty, so anyone may do everything; give tokens, or state auth.mode: none without "
                     "the list");
    }
    if (mode == "tokens" && !enabled) problems.add("auth.mode", "auth.mode is tokens, but auth.tokens is empty");
    const std::string& host = draft.config.server.host;
    if (api::is_loopback(host)) return;
    if (mode.empty() && !enabled) {
        problems.add("server.host",
                     fmt::format("server.host {} can be reached from outside, and anyone could use the API; give "
                                 "auth.tokens, state auth.mode: none, or bind 127.0.0.1",
                                 host));
    }
    const bool has_tls = problems.values().has("server.tls.cert_file");
    if (enabled && !has_tls && !draft.config.insecure_http) {
        problems.add("server.host",
                     fmt::format("server.host {} can be reached from outside, and tokens would cross the network in "
                                 "plain HTTP; give server.tls a certificate, or put TLS in front and state "
                                 "server.insecure_http: true, or bind 127.0.0.1",
                                 host));
    }
}

/// A token is proof enough. Without one, the names that requests carry must do; where `auth.mode: none` states that
/// something else controls access, that decides about names too, unless some are given.
void finish_doors(Draft& draft, Problems& problems) {
    const bool enabled = draft.config.auth.enabled;
    api::DoorOptions& doors = draft.config.auth.doors;
    doors.check_origin = !enabled;
    doors.https_only = problems.values().has("server.tls.cert_file");
    doors.check_host = !enabled && (draft.auth.mode != "none" || !doors.allowed_hosts.empty());
    for (const std::string& name : doors.allowed_hosts) {
        if (api::is_host_name(name)) continue;
        problems.add(
            "server.allowed_hosts",
            fmt::format("server.allowed_hosts: \"{}\" is not a name or name:port, such as deliverd.internal", name));
    }
}

}  // namespace

std::vector<api::Token> read_tokens_file(const std::string& path, std::vector<std::string>& problems) {
    const auto text = read_secret_file(path);
    if (!text) {
        problems.push_back(text.error().message);
        return {};
    }
    std::vector<Problem> found;
    Node list = parse_yaml(*text, found);
    // As if it were in the configuration, so that both are read and checked alike.
    Node auth{Node::Kind::map, 1, {}, {{"tokens", 1, std::move(list)}}, {}};
    const Node root{Node::Kind::map, 1, {}, {{"auth", 1, std::move(auth)}}, {}};
    const Values values = read_values(root, path, [](const std::string&) { return std::nullopt; }, found);
    Problems about_tokens(values, found);
    auto tokens = make_tokens(about_tokens);
    for (const Problem& problem : found) {
        problems.push_back(fmt::format("{}:{}: {}", path, problem.line, problem.message));
    }
    return tokens;
}

void finish_tls(Draft& draft, Problems& problems) {
    constexpr const char* kSection = "server.tls";
    if (problems.values().line_of(kSection) == 0) return;
    draft.config.server.tls = draft.tls;
    if (draft.tls.cert_file.empty() || draft.tls.key_file.empty()) {
        problems.add(
            kSection,
            "server.tls needs both cert_file and key_file; give them, or remove server.tls to serve plain HTTP");
    } else if (const auto loaded = http::load_tls(draft.tls); !loaded) {
        problems.add(kSection, "server.tls: " + loaded.error().message);
    }
}

void finish_auth(Draft& draft, Problems& problems) {
    Config& config = draft.config;
    api::AuthOptions& auth = config.auth;
    auth.tokens = make_tokens(problems);
    auth.file_tokens = make_file_tokens(config.tokens_file, problems);
    auth.jwt = make_jwt(draft, problems);
    auth.enabled = !auth.tokens.empty() || auth.file_tokens || auth.jwt;
    check_mode(draft, problems);
    if (auth.audit_reads && config.log.level > LogLevel::info) {  // an audit must not get lost for another setting
        const char* level = config.log.level == LogLevel::warn ? "warn" : "error";
        problems.add(
            "auth.audit_reads",
            fmt::format("auth.audit_reads writes lines of level info, but log.level is {}; make it info", level));
    }
    finish_doors(draft, problems);
}

}  // namespace deliverd::config
