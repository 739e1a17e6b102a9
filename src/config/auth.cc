#include <array>
#include <fstream>
#include <memory>

#include "base/sha256.h"
#include "base/text.h"
#include "config/finish.h"
#include "config/load.h"
#include "deadletter/topic_pattern.h"
#include "http/tls.h"
#include "sink/http/http_options.h"
#include "sink/http/http_url.h"

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

/// An empty list is a mistake, and must not mean a token without limits.
void check_topics(const std::vector<std::string>& topics, const std::string& path, Problems& problems) {
    problems.require(!topics.empty(), path, " is empty; name topics, or leave it out for all of them");
    for (const std::string& pattern : topics) {
        problems.require(deadletter::check_topic_pattern(pattern), path, " has a wrong pattern: {}");
    }
}

api::Token make_token(const std::string& path, Problems& problems) {
    TokenDraft draft;
    fill(problems.values(), "auth.tokens[]", path, &draft);
    api::Token& token = draft.token;
    problems.require(!token.name.empty(), path + ".name", " is missing: give the token a name");
    problems.require(!token.name.starts_with("jwt:"), path + ".name",
                     " begins with jwt:, as the audit names callers of an OpenID provider; choose another name");
    if (!draft.expires_at.empty()) {
        token.expires_at = parse_rfc3339(draft.expires_at);
        problems.require(token.expires_at.has_value(), path + ".expires_at",
                         " must be a time such as 2027-01-31T00:00:00Z, not \"{}\"", draft.expires_at);
    }
    if (problems.values().has(path + ".topics")) check_topics(*token.scope.topics, path + ".topics", problems);
    // sha256_hex() writes lower case, and a caller's token is compared as text.
    token.sha256 = ascii_lower(token.sha256);
    if (!is_sha256(token.sha256)) {
        problems.about(path + ".sha256",
                       " must be the 64 hex digits of the token's SHA-256; `deliverd token new` makes both");
    } else if (is_well_known(token.sha256)) {
        // A hash hides a word only from those who do not try it.
        problems.about(
            path + ".sha256",
            " is the hash of a word that is easy to guess; make a token with `deliverd token new --name NAME --role "
            "ROLE`");
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
    for (const std::string& message : wrong) problems.about("auth.tokens_file", ": {}", message);
    return std::make_shared<api::TokenList>(std::move(tokens));
}

constexpr const char* kJwt = "auth.jwt";

std::vector<std::pair<std::string, api::Role>> make_roles(const TextMap& names, Problems& problems) {
    constexpr std::array kRoles{api::Role::viewer, api::Role::operator_, api::Role::admin};
    std::vector<std::pair<std::string, api::Role>> out;
    for (const auto& [claim, name] : names) {
        const auto* role = std::ranges::find(kRoles, name, api::role_name);
        if (role != kRoles.end()) {
            out.emplace_back(claim, *role);
        } else {
            problems.about("auth.jwt.roles." + claim, " must be viewer, operator or admin, not \"{}\"", name);
        }
    }
    problems.require(!names.empty(), "auth.jwt.roles",
                     " is missing: map values of the role claim to roles, such as {{ deliverd-ops: operator }}");
    return out;
}

void check_url(const JwksSource& source, Problems& problems) {
    if (const auto good = sink::check_http_url(source.url); !good) {
        problems.about("auth.jwt.jwks_url", " {}", good.error().message);
    } else if (!sink::is_guarded_url(source.url)) {
        problems.about(
            "auth.jwt.jwks_url",
            " must be https, or http to a loopback address: an attacker who changes the keys in transit could sign "
            "tokens");
    }
    // Only whether it can be opened: what is in it libcurl checks at each fetch.
    const bool readable = source.ca_file.empty() || std::ifstream(source.ca_file).good();
    problems.require(readable, "auth.jwt.ca_file", " cannot be read: {}", source.ca_file);
}

api::JwtKeySet make_keys(const JwksSource& source, Problems& problems) {
    if (source.file.empty() == source.url.empty()) {
        problems.about(kJwt, " needs the provider's keys: give either jwks_url or jwks_file");
        return {};
    }
    // The keys of a URL are fetched while serving: a provider that is down must not keep the program from starting.
    if (!source.url.empty()) check_url(source, problems);
    if (source.file.empty()) return {};
    problems.require(source.ca_file.empty(), "auth.jwt.ca_file", " is for jwks_url; remove it");
    auto keys = read_secret_file(source.file).and_then([](const std::string& text) { return api::parse_jwks(text); });
    if (keys) return std::move(*keys);
    problems.about("auth.jwt.jwks_file", " cannot be used: {}", keys.error().message);
    return {};
}

/// Reads `jwks_file` too; keys of a `jwks_url` come later (daemon/jwks_refresh.h). None without `auth.jwt`.
std::optional<api::JwtAuth> make_jwt(const Draft& draft, Problems& problems) {
    if (!problems.values().has_section(kJwt)) return std::nullopt;
    const api::JwtRules& rules = draft.auth.jwt;
    problems.require(!rules.issuer.empty(), "auth.jwt.issuer",
                     " is missing: the provider's URL, as the tokens have it in `iss`");
    problems.require(!rules.audience.empty(), "auth.jwt.audience",
                     " is missing: what the provider writes into `aud` of tokens for deliverd");
    problems.require(!rules.role_claim.empty(), "auth.jwt.role_claim", " is empty; name the claim that has the roles");
    api::JwtAuth jwt;
    jwt.rules = rules;
    jwt.roles = make_roles(draft.auth.jwt_roles, problems);
    jwt.keys = std::make_shared<api::JwtKeys>(make_keys(draft.config.jwks, problems));
    return jwt;
}

/// A server that anyone can reach, and a token that anyone can read, must be asked for: neither is ever a default.
void check_mode(const Draft& draft, Problems& problems) {
    const bool enabled = draft.config.auth.enabled;
    const std::string& mode = draft.auth.mode;
    problems.require(mode != "none" || !enabled, "auth.mode",
                     " is none, but there are auth.tokens, an auth.tokens_file or auth.jwt; remove one of the two");
    problems.require(mode == "tokens" || enabled || !problems.values().has_section("auth.tokens"), "auth.tokens",
                     " is empty, so anyone may do everything; give tokens, or state auth.mode: none without the list");
    problems.require(mode != "tokens" || enabled, "auth.mode", " is tokens, but auth.tokens is empty");
    const std::string& host = draft.config.server.host;
    if (api::is_loopback(host)) return;
    problems.require(!mode.empty() || enabled, "server.host",
                     " {} can be reached from outside, and anyone could use the API; give auth.tokens, state "
                     "auth.mode: none, or bind 127.0.0.1",
                     host);
    const bool guarded = problems.values().has("server.tls.cert_file") || draft.config.insecure_http;
    problems.require(!enabled || guarded, "server.host",
                     " {} can be reached from outside, and tokens would cross the network in plain HTTP; give "
                     "server.tls a certificate, or put TLS in front and state server.insecure_http: true, or bind "
                     "127.0.0.1",
                     host);
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
        problems.about("server.allowed_hosts", ": \"{}\" is not a name or name:port, such as deliverd.internal", name);
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
    // Without the environment: a file of tokens holds hashes, and "${" in it would be a mistake.
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
    if (!problems.values().has_section(kSection)) return;
    draft.config.server.tls = draft.tls;
    if (draft.tls.cert_file.empty() || draft.tls.key_file.empty()) {
        problems.about(kSection,
                       " needs both cert_file and key_file; give them, or remove server.tls to serve plain HTTP");
    } else if (const auto loaded = http::load_tls(draft.tls); !loaded) {
        problems.about(kSection, ": {}", loaded.error().message);
    }
}

void finish_auth(Draft& draft, Problems& problems) {
    Config& config = draft.config;
    api::AuthOptions& auth = config.auth;
    auth.tokens = make_tokens(problems);
    auth.file_tokens = make_file_tokens(config.tokens_file, problems);
    auth.jwt = make_jwt(draft, problems);
    // A tokens_file counts even when it is empty: emptying it revokes all tokens and must not open the door.
    auth.enabled = !auth.tokens.empty() || auth.file_tokens || auth.jwt;
    check_mode(draft, problems);
    // An audit must not get lost for another setting.
    problems.require(!auth.audit_reads || config.log.level <= LogLevel::info, "auth.audit_reads",
                     " writes lines of level info, but log.level is {}; make it info",
                     config.log.level == LogLevel::warn ? "warn" : "error");
    finish_doors(draft, problems);
}

}  // namespace deliverd::config
