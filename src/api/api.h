// Routes, error bodies, request ids and who may do what: an http::DeferredHandler made of a table of routes.
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
#include "api/scope.h"
#include "base/clock.h"
#include "base/current.h"
#include "base/log.h"
#include "base/random.h"
#include "http/server.h"
#include "metrics/metrics.h"

namespace deliverd::api {

enum class Role { none, viewer, operator_, admin };  // each may do what the ones before it may

struct Token {
    std::string name;
    Role role = Role::viewer;
    std::string sha256;                    // lower-case hex of the token's bytes
    std::optional<WallTime> expires_at{};  // from then on it is unknown
    Scope scope{};
};

/// Tokens that may change while requests are served.
using TokenList = Current<std::vector<Token>>;

/// Callers with a token of an OpenID provider (api/jwt.h). They are called "jwt:" and their `sub`.
struct JwtAuth {
    JwtRules rules;
    std::vector<std::pair<std::string, Role>> roles;  // by what the role claim has; of several the highest counts
    std::shared_ptr<JwtKeys> keys;
    std::function<void()> on_unknown_key{};  // told of a token by a key that is not there; quick, thread-safe; or none
};

struct AuthOptions {
    bool enabled = false;  // false: every caller may do everything (loopback only, or `auth.mode: none`)
    std::vector<Token> tokens;
    std::shared_ptr<TokenList> file_tokens{};  // beside `tokens`; null: none
    std::optional<JwtAuth> jwt{};              // for tokens with the form of a JWT, which are then no others
    bool open_metrics = false;
    bool audit_reads = false;  // a line in the log for each successful GET below /api/
    DoorOptions doors;
};

struct Caller {
    std::string name;  // the token's name, "jwt:" and a subject, or "anonymous"
    Role role = Role::admin;
    Scope scope{};
};

struct Call {
    const http::Request& request;
    std::string request_id;
    Caller caller;
    std::vector<std::string> path_values;  // what stood for {…} in the route, percent-decoded
};

/// What a route is for callers who are limited to topics (Caller::scope).
enum class Limited {
    refused,     // 403: it is about all topics, or about none
    open,        // as for everyone: nothing in it belongs to a topic
    by_topic,    // the first {…} of its path is a topic; 403 where that is not in scope
    by_handler,  // its handler shows and changes only what is in scope
};

struct Route {
    std::string method;
    std::string path;  // "/api/v1/orders/{key}"
    Role needs = Role::viewer;
    std::function<http::Response(const Call&)> handler{};
    /// In place of `handler`, for an answer that comes later. The Call is gone once this returns; copies of it, and the
    /// request it refers to, may be used until the answer is given.
    std::function<void(const Call&, http::Reply)> deferred{};
    Limited limited = Limited::refused;  // without effect where `needs` is none
};

/// One check of /readyz: empty when fine, else what is wrong. Runs on a handler thread, bounded by its own deadline.
struct ReadyCheck {
    std::string name;
    std::function<std::string()> problem;
};

/// The same check, asked at most once a second and by one caller at a time; the others get the last answer. `clock`
/// outlives it.
[[nodiscard]] ReadyCheck cached_check(ReadyCheck check, const Clock& clock);

/// One entry of an error's `details`: {"field","message"}.
struct Detail {
    std::string field;
    std::string message;
};

/// {"error":{"code","message","request_id","details":[]}}, and the id as X-Request-Id. Of many details it names some
/// and counts the others.
[[nodiscard]] http::Response error_response(int status, std::string_view code, std::string_view message,
                                            std::string_view request_id, const std::vector<Detail>& details = {});

/// The same body, with a request id made for it, for errors the server finds before a route is known.
[[nodiscard]] http::ErrorBody make_error_body();

struct Handler {
    http::DeferredHandler handle;
    http::Refuse refuse;  // for http::ServerOptions: what `handle` would refuse by the header alone

    void operator()(const http::Request& request, const http::Reply& reply) const { handle(request, reply); }
};

/// 421 and 403 as the doors say, 404 for unknown paths, 405 with Allow for wrong methods, 401/403 as roles and scopes
/// say, 415 for a body that is not called JSON and would change something, 500 (logged) for an exception; X-Request-Id
/// taken over (when it is 1–128 visible ASCII characters) or made, and on every answer. HEAD is answered by GET's
/// route. Where two routes match, a literal segment beats a {parameter}. Thread-safe; `log` outlives the handler.
[[nodiscard]] Handler make_handler(std::vector<Route> routes, AuthOptions auth, Log& log,
                                   metrics::Metrics* metrics = nullptr);

/// /healthz (never touches anything), /readyz (503 naming the failing check, to viewers with its words), /metrics.
[[nodiscard]] std::vector<Route> service_routes(std::vector<ReadyCheck> checks, metrics::Metrics& metrics,
                                                const AuthOptions& auth);

/// Whether only this machine can reach a server bound to `host`: 127.0.0.0/8, ::1 or localhost. Without auth
/// nothing else may be bound. Names are not looked up: any other name is not loopback.
[[nodiscard]] bool is_loopback(std::string_view host);

}  // namespace deliverd::api
