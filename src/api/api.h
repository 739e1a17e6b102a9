// Routes, error bodies, request ids and who may do what: an http::Handler made of a table of routes.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "http/server.h"
#include "metrics/metrics.h"

namespace deliverd::api {

enum class Role { none, viewer, operator_, admin };  // each may do what the ones before it may

struct Token {
    std::string name;
    Role role = Role::viewer;
    std::string sha256;  // lower-case hex of the token's bytes
};

struct AuthOptions {
    bool enabled = false;  // false: every caller may do everything (loopback only, or `auth.mode: none`)
    std::vector<Token> tokens;
    bool open_metrics = false;
};

struct Caller {
    std::string name;  // the token's name; "anonymous" without auth
    Role role = Role::admin;
};

struct Call {
    const http::Request& request;
    std::string request_id;
    Caller caller;
    std::vector<std::string> path_values;  // what stood for {…} in the route, percent-decoded
};

struct Route {
    std::string method;
    std::string path;  // "/api/v1/orders/{key}"
    Role needs = Role::viewer;
    std::function<http::Response(const Call&)> handler;
};

/// One check of /readyz: empty when fine, else what is wrong. Runs on a handler thread, bounded by its own deadline.
struct ReadyCheck {
    std::string name;
    std::function<std::string()> problem;
};

/// {"error":{"code","message","request_id","details":[]}}
[[nodiscard]] http::Response error_response(int status, std::string_view code, std::string_view message,
                                            std::string_view request_id);

/// 404 for unknown paths, 405 with Allow for wrong methods, 401/403 as the roles say, 500 (logged) for an
/// exception; X-Request-Id taken over (when it is 1–128 visible ASCII characters) or made. Thread-safe.
[[nodiscard]] http::Handler make_handler(std::vector<Route> routes, AuthOptions auth, Log& log);

/// /healthz (never touches anything), /readyz (503 naming the failing check), /metrics.
[[nodiscard]] std::vector<Route> service_routes(std::vector<ReadyCheck> checks, metrics::Metrics& metrics,
                                                const AuthOptions& auth);

}  // namespace deliverd::api
