#include "api/api.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "api/refusals.h"
#include "api/router.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/text.h"
#include "base/uuid.h"

namespace deliverd::api {

namespace {

constexpr std::size_t kMaxRequestIdBytes = 128;
constexpr std::size_t kMaxShownTopicBytes = 256;
constexpr std::size_t kMaxDetails = 32;  // listed in one answer; the rest are only counted
constexpr Duration kReadyCacheTime = std::chrono::seconds(1);
constexpr std::string_view kRequestId = "X-Request-Id";

class RequestIds {
public:
    std::string make() {
        const MutexLock lock(mutex_);
        return make_uuid_v7(clock_.wall_now(), random_);
    }

    /// The caller's own id if it is fit to be echoed and logged.
    std::string of(const http::Request& request) {
        const auto given = request.header(kRequestId);
        const bool usable = !given.empty() && given.size() <= kMaxRequestIdBytes &&
                            std::all_of(given.begin(), given.end(), [](char c) { return c > ' ' && c < 127; });
        return usable ? std::string(given) : make();
    }

private:
    Mutex mutex_;
    const SystemClock clock_;
    SystemRandom random_ GUARDED_BY(mutex_);
};

/// Why a caller who is limited to topics is refused; empty if it is not. Only the token and the path decide, so that
/// the answer is the same for a topic that exists and for one that does not. An empty list would reveal as little, but
/// would read as if the topic had no dead letters.
std::string out_of_scope(const Route& route, const Caller& caller, const std::vector<std::string>& path_values) {
    if (!caller.scope.is_limited() || route.needs == Role::none) return {};
    switch (route.limited) {
        case Limited::open:
        case Limited::by_handler:
            return {};
        case Limited::by_topic:
            if (path_values.empty()) break;
            if (caller.scope.allows(path_values.front())) return {};
            return fmt::format("token '{}' may not use topic '{}'", caller.name,
                               shorten(one_line(path_values.front()), kMaxShownTopicBytes));
        case Limited::refused:
            break;
    }
    return fmt::format("token '{}' is limited to topics; this is not about one of them", caller.name);
}

/// Every GET of the API, so that no route that shows messages can be forgotten.
bool is_audited_read(const Route& route) {
    return route.method == "GET" && route.path.starts_with("/api/");
}

/// `reply`, with a line in `log` before a successful answer. Without the query: `text` and `key` may be from a payload.
http::Reply audited(const http::Reply& reply, const Call& call, Log& log) {
    return http::Reply([reply, &log, actor = call.caller.name, method = call.request.method, path = call.request.path,
                        address = call.request.remote_address, id = call.request_id](http::Response response) {
        if (response.status < 300) {
            log.info("audit", {{"action", "read"},
                               {"actor", actor},
                               {"method", method},
                               {"path", path},
                               {"address", address},
                               {"request_id", id}});
        }
        reply(std::move(response));
    });
}

class Dispatcher {
public:
    Dispatcher(std::vector<Route> routes, AuthOptions auth, Log& log, metrics::Metrics* metrics)
        : router_(std::move(routes)), auth_(std::move(auth)), log_(log), refusals_(log, metrics, clock_) {}

    void handle(const http::Request& request, const http::Reply& reply) {
        const std::string id = ids_.of(request);
        route(request, id, http::Reply([reply, id](http::Response response) {
                  const bool has_id = std::any_of(response.headers.begin(), response.headers.end(),
                                                  [](const auto& header) { return header.first == kRequestId; });
                  if (!has_id) response.headers.emplace_back(kRequestId, id);
                  reply(std::move(response));
              }));
    }

    [[nodiscard]] std::optional<http::Response> refusal(const http::Request& head) {
        return admit(head, ids_.of(head)).refusal;
    }

private:
    /// Either the refusal of a request, or its route and caller.
    struct Admission {
        std::optional<http::Response> refusal{};
        const Route* route = nullptr;
        Caller caller{};
        std::vector<std::string> path_values{};
    };

    /// By the header alone.
    [[nodiscard]] Admission admit(const http::Request& request, const std::string& id) {
        if (auth_.doors.check_host && !is_own_host(request.header("Host"), auth_.doors)) {
            return turned_away(request, "host", misdirected(id));
        }
        if (auth_.doors.check_origin && is_cross_origin(request, auth_.doors)) {
            return turned_away(request, "origin", foreign(id));
        }
        auto match = router_.find(request.method, request.path);
        if (match.bad_escape) {
            return {error_response(400, "BAD_REQUEST", "a percent escape in the path is not UTF-8 text", id)};
        }
        if (match.allowed.empty()) {
            return {error_response(404, "NOT_FOUND", fmt::format("there is nothing at {}", request.path), id)};
        }
        if (match.route == nullptr) return {wrong_method(request, match.allowed, id)};
        auto caller = caller_of(request, auth_, clock_.wall_now());
        if (!caller && match.route->needs != Role::none) {
            return turned_away(request, caller.error().code, unauthorized(id), caller.error().message);
        }
        if (!caller) caller = Caller{"anonymous", Role::none};
        if (caller->role < match.route->needs) {
            return turned_away(request, "role", forbidden(*caller, match.route->needs, id));
        }
        if (const std::string why = out_of_scope(*match.route, *caller, match.path_values); !why.empty()) {
            return turned_away(request, "scope", error_response(403, "FORBIDDEN", why, id));
        }
        if (match.route->method == "GET") {
            if (announces_body(request)) return {unwanted_body(request, id)};
        } else if (has_other_body(request)) {
            return {not_json(id)};
        }
        return {std::nullopt, match.route, std::move(*caller), std::move(match.path_values)};
    }

    [[nodiscard]] Admission turned_away(const http::Request& request, std::string_view reason, http::Response response,
                                        std::string_view detail = {}) {
        response.delay = refusals_.note(request, reason, detail);
        return {std::move(response)};
    }

    void route(const http::Request& request, const std::string& id, const http::Reply& reply) {
        auto admission = admit(request, id);
        if (admission.refusal) return reply(std::move(*admission.refusal));
        const Call call{request, id, std::move(admission.caller), std::move(admission.path_values)};
        const bool audits = auth_.audit_reads && is_audited_read(*admission.route);
        run(*admission.route, call, audits ? audited(reply, call, log_) : reply);
    }

    void run(const Route& route, const Call& call, const http::Reply& reply) {
        try {
            if (route.deferred) return route.deferred(call, reply);
            return reply(route.handler(call));
        } catch (const std::exception& error) {
            log_failure(call, error.what());
        } catch (...) {
            log_failure(call, "not a std::exception");
        }
        reply(error_response(500, "INTERNAL_ERROR", "the request failed; the log has the cause under this request id",
                             call.request_id));
    }

    void log_failure(const Call& call, std::string_view what) {
        log_.error("request failed", {{"request_id", call.request_id},
                                      {"method", call.request.method},
                                      {"path", call.request.path},
                                      {"error", what}});
    }

    static http::Response misdirected(const std::string& id) {
        return error_response(421, "MISDIRECTED_REQUEST",
                              "the header Host names another server; call this one by a loopback address or localhost, "
                              "or add the name to server.allowed_hosts",
                              id);
    }

    static http::Response foreign(const std::string& id) {
        return error_response(403, "FORBIDDEN_ORIGIN",
                              "a page of another origin may not use this API; configure auth.tokens, or add the page's "
                              "host to server.allowed_hosts",
                              id);
    }

    static http::Response unwanted_body(const http::Request& request, const std::string& id) {
        return error_response(400, "BAD_REQUEST", fmt::format("{} takes no body; send none", request.method), id);
    }

    static http::Response not_json(const std::string& id) {
        return error_response(415, "UNSUPPORTED_MEDIA_TYPE", "send the body with 'Content-Type: application/json'", id);
    }

    static http::Response wrong_method(const http::Request& request, const std::vector<std::string>& allowed,
                                       const std::string& id) {
        const std::string list = fmt::format("{}", fmt::join(allowed, ", "));
        auto response =
            error_response(405, "METHOD_NOT_ALLOWED",
                           fmt::format("{} does not take {}, only {}", request.path, request.method, list), id);
        response.headers.emplace_back("Allow", list);
        return response;
    }

    static http::Response unauthorized(const std::string& id) {
        auto response = error_response(401, "UNAUTHORIZED", "send a valid token as 'Authorization: Bearer TOKEN'", id);
        response.headers.emplace_back("WWW-Authenticate", "Bearer");
        return response;
    }

    static http::Response forbidden(const Caller& caller, Role needs, const std::string& id) {
        return error_response(
            403, "FORBIDDEN",
            fmt::format("token '{}' has role {}; this needs {}", caller.name, role_name(caller.role), role_name(needs)),
            id);
    }

    const Router router_;
    const AuthOptions auth_;
    Log& log_;
    const SystemClock clock_;
    Refusals refusals_;
    RequestIds ids_;
};

http::Response ready(const std::vector<ReadyCheck>& checks, const Call& call) {
    std::vector<Detail> problems;
    for (const auto& check : checks) {
        auto problem = check.problem();
        if (!problem.empty()) problems.push_back({check.name, std::move(problem)});
    }
    if (problems.empty()) return {200, {}, "application/json", R"({"status":"ready"})"};
    if (call.caller.role < Role::viewer) {  // the message of a database names roles, hosts and paths
        for (Detail& problem : problems) problem.message = "is not ready";
        return error_response(
            503, "NOT_READY",
            fmt::format("{} is not ready; ask with a viewer's token for the cause", problems.front().field),
            call.request_id, problems);
    }
    return error_response(503, "NOT_READY", fmt::format("{}: {}", problems.front().field, problems.front().message),
                          call.request_id, problems);
}

/// Remembers a check's last answer.
class CachedCheck {
public:
    CachedCheck(std::function<std::string()> problem, const Clock& clock) : ask_(std::move(problem)), clock_(clock) {}

    std::string problem() {
        {
            const MutexLock lock(mutex_);
            const bool fresh = known_ && clock_.now() - since_ < kReadyCacheTime;
            if (fresh || (known_ && asking_)) return last_;
            asking_ = true;
        }
        std::string answer;
        try {
            answer = ask_();
        } catch (const std::exception& error) {
            answer = error.what();
        }
        const MutexLock lock(mutex_);
        asking_ = false;
        known_ = true;
        since_ = clock_.now();
        last_ = std::move(answer);
        return last_;
    }

private:
    const std::function<std::string()> ask_;
    const Clock& clock_;
    Mutex mutex_;
    std::string last_ GUARDED_BY(mutex_);
    Instant since_ GUARDED_BY(mutex_){};
    bool known_ GUARDED_BY(mutex_) = false;
    bool asking_ GUARDED_BY(mutex_) = false;
};

}  // namespace

ReadyCheck cached_check(ReadyCheck check, const Clock& clock) {
    const auto cached = std::make_shared<CachedCheck>(std::move(check.problem), clock);
    return {std::move(check.name), [cached] { return cached->problem(); }};
}

http::Response error_response(int status, std::string_view code, std::string_view message, std::string_view request_id,
                              const std::vector<Detail>& details) {
    boost::json::array entries;
    const std::size_t shown = std::min(details.size(), kMaxDetails);
    for (const auto& detail : std::span(details).first(shown)) {
        entries.push_back({{"field", valid_utf8(detail.field)}, {"message", valid_utf8(detail.message)}});
    }
    if (shown < details.size()) {
        entries.push_back({{"field", ""}, {"message", fmt::format("and {} more", details.size() - shown)}});
    }
    // A message may repeat bytes of the request.
    const boost::json::value body = {{"error",
                                      {{"code", code},
                                       {"message", valid_utf8(message)},
                                       {"request_id", request_id},
                                       {"details", std::move(entries)}}}};
    http::Response response;
    response.status = status;
    response.headers.emplace_back(kRequestId, request_id);
    response.body = boost::json::serialize(body);
    return response;
}

http::ErrorBody make_error_body() {
    return [ids = std::make_shared<RequestIds>()](int status, std::string_view code, std::string_view message) {
        return error_response(status, code, message, ids->make());
    };
}

Handler make_handler(std::vector<Route> routes, AuthOptions auth, Log& log, metrics::Metrics* metrics) {
    auto dispatcher = std::make_shared<Dispatcher>(std::move(routes), std::move(auth), log, metrics);
    return {
        [dispatcher](const http::Request& request, const http::Reply& reply) { dispatcher->handle(request, reply); },
        [dispatcher](const http::Request& head) { return dispatcher->refusal(head); }};
}

std::vector<Route> service_routes(std::vector<ReadyCheck> checks, metrics::Metrics& metrics, const AuthOptions& auth) {
    std::vector<Route> routes;
    routes.push_back({"GET", "/healthz", Role::none,
                      [](const Call&) { return http::Response{200, {}, "application/json", R"({"status":"ok"})"}; }});
    routes.push_back(
        {"GET", "/readyz", Role::none, [checks = std::move(checks)](const Call& call) { return ready(checks, call); }});
    routes.push_back({"GET", "/metrics", auth.open_metrics ? Role::none : Role::viewer, [&metrics](const Call&) {
                          return http::Response{200, {}, "text/plain; version=0.0.4; charset=utf-8", metrics.text()};
                      }});
    return routes;
}

}  // namespace deliverd::api
