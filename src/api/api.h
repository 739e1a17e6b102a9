// The API's front: turns a table of routes into an http::DeferredHandler, with error bodies, request ids and access
// rules.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "api/auth.h"
#include "api/router.h"
#include "base/clock.h"
#include "base/log.h"
#include "deliverd/result.h"
#include "http/messages.h"
#include "metrics/metrics.h"

namespace deliverd::api {

/// One check of /readyz: returns what is wrong; empty: nothing. Runs on a handler thread; limits its time itself.
struct ReadyCheck {
    std::string name;
    std::function<std::string()> problem;
};

/// The same check, run at most once a second and by one caller at a time; other callers get the last answer. `clock`
/// outlives it.
[[nodiscard]] ReadyCheck cached_check(ReadyCheck check, const Clock& clock);

/// One entry of an error's `details`: {"field","message"}.
struct Detail {
    std::string field;
    std::string message;
};

/// {"error":{"code","message","request_id","details":[]}}, and the id as X-Request-Id. Lists a bounded number of
/// details and counts the rest.
[[nodiscard]] http::Response error_response(int status, std::string_view code, std::string_view message,
                                            std::string_view request_id, const std::vector<Detail>& details = {});

/// 503 with Retry-After.
[[nodiscard]] http::Response try_later(std::string_view code, std::string_view message, std::string_view request_id);

/// 500 with `code`, for what the database refuses permanently. The database's own message goes to the log only, as
/// `event`: it may name hosts and users.
[[nodiscard]] http::Response database_refused(std::string_view code, std::string_view event, const Error& error,
                                              std::string_view request_id, Log& log);

/// 200 with `body`, which is JSON.
[[nodiscard]] http::Response json_response(std::string body);

/// The same body with a new request id, for errors that the server finds before a route is known.
[[nodiscard]] http::ErrorBody make_error_body();

struct Handler {
    http::DeferredHandler handle;
    http::Refuse refuse;  // for http::ServerOptions: refuses by the header alone what `handle` would refuse

    void operator()(const http::Request& request, const http::Reply& reply) const { handle(request, reply); }
};

/// Answers, in this order of checks: 421 and 403 (api/doors.h), 404 for an unknown path, 405 with Allow for a wrong
/// method, 401 and 403 by role and scope, 415 for a body without a JSON content type, 500 (logged) for an exception.
/// Every answer has X-Request-Id: the caller's, if it is 1 to 128 visible ASCII characters, otherwise a new one. GET's
/// route answers HEAD. If two routes match, a literal segment wins over a {parameter}. Thread-safe; `log` outlives the
/// handler.
[[nodiscard]] Handler make_handler(std::vector<Route> routes, AuthOptions auth, Log& log,
                                   metrics::Metrics* metrics = nullptr);

/// /healthz (uses nothing that can fail), /readyz (503 with the name of the failing check, and for viewers its
/// message), /metrics.
[[nodiscard]] std::vector<Route> service_routes(std::vector<ReadyCheck> checks, metrics::Metrics& metrics,
                                                const AuthOptions& auth);

}  // namespace deliverd::api
