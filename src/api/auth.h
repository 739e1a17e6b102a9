// Who calls: roles, topics, tokens, and the caller that a request's token names.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/doors.h"
#include "api/jwt.h"
#include "base/clock.h"
#include "base/current.h"
#include "deliverd/result.h"
#include "http/messages.h"

namespace deliverd::store {
struct Letter;
}

namespace deliverd::api {

/// Which topics a caller may see and act on.
struct Scope {
    /// Patterns, as deadletter::matches_pattern() has them. None: not limited. An empty list: no topic at all.
    std::optional<std::vector<std::string>> topics{};

    [[nodiscard]] bool is_limited() const { return topics.has_value(); }

    /// `topic` is what a path has for {topic}: a dead-letter topic, an original one, a lane's or a spool's name.
    [[nodiscard]] bool allows(std::string_view topic) const;

    /// Whether the topic it was read from is allowed, or its original one, which for a lane or a spool is the name. So
    /// every letter that a listing by an allowed topic finds is allowed too.
    [[nodiscard]] bool allows(const store::Letter& letter) const;
};

enum class Role { none, viewer, operator_, admin };  // each may do what the ones before it may

struct Token {
    std::string name;
    Role role = Role::viewer;
    std::string sha256;                    // lower-case hex of the token's bytes
    std::optional<WallTime> expires_at{};  // refused from then on
    Scope scope{};
};

/// Tokens that may change while requests are served.
using TokenList = Current<std::vector<Token>>;

/// Callers with a token of an OpenID provider (api/jwt.h). Their name is "jwt:" followed by `sub`.
struct JwtAuth {
    JwtRules rules;
    std::vector<std::pair<std::string, Role>> roles;  // by value of the role claim; of several, the highest
    std::shared_ptr<JwtKeys> keys;
    std::function<void()> on_unknown_key{};  // called for a token by an unknown key; quick, thread-safe; may be empty
};

struct AuthOptions {
    bool enabled = false;  // false: every caller may do everything (loopback only, or `auth.mode: none`)
    std::vector<Token> tokens;
    std::shared_ptr<TokenList> file_tokens{};  // beside `tokens`; null: none
    std::optional<JwtAuth> jwt{};              // if set, decides about every token that looks like a JWT
    bool open_metrics = false;
    bool audit_reads = false;  // a line in the log for each successful GET below /api/
    DoorOptions doors;
};

struct Caller {
    std::string name;  // the token's name, "jwt:" and a subject, or "anonymous"
    Role role = Role::admin;
    Scope scope{};
};

[[nodiscard]] std::string_view role_name(Role role);

/// Who sent the request. Compares every token in constant time, so that the time taken does not tell which one came
/// close. Failure: the code is the reason for api_refused_total, the message is for the log. Thread-safe.
[[nodiscard]] Result<Caller> caller_of(const http::Request& request, const AuthOptions& auth, WallTime now);

}  // namespace deliverd::api
