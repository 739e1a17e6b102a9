#include "api/api.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "api/refusals.h"
#include "api/router.h"
#include "base/json_object.h"
#include "base/mutex.h"
#include "base/text.h"
#include "base/uuid.h"

namespace deliverd::api {

namespace {

constexpr std::size_t kMaxRequestIdBytes = 128;
constexpr std::size_t kMaxShownTopicBytes = 256;
constexpr std::size_t kMaxDetails = 32;  // listed in one answer; the rest are only counted
constexpr Duration kReadyCacheTime = std::chrono::seconds(1);
constexpr std::string_view kRequestId = "X-Request-Id";
constexpr std::string_view kRetryAfterSeconds = "1";

/// Whether a caller's own request id is fit to be echoed and logged.
bool is_usable_id(std::string_view given) {
    return !given.empty() && given.size() <= kMaxRequestIdBytes &&
           std::ranges::all_of(given, [](char c) { return c > ' ' && c < 127; });
}

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
        const std::string id = id_of(request);
        const http::Reply with_id([reply, id](http::Response response) {
            // error_response() has put it in already.
            const auto is_id = [](const auto& header) { return header.first == kRequestId; };
            if (std::ranges::none_of(response.headers, is_id)) response.headers.emplace_back(kRequestId, id);
            reply(std::move(response));
        });
        auto admission = admit(request, id);
        if (admission.refusal) return with_id(std::move(*admission.refusal));
        const Call call{request, id, std::move(admission.caller), std::move(admission.path_values)};
        const bool audits = auth_.audit_reads && is_audited_read(*admission.route);
        run(*admission.route, call, audits ? audited(with_id, call, log_) : with_id);
    }

    [[nodiscard]] std::optional<http::Response> refusal(const http::Request& head) {
        return admit(head, id_of(head)).refusal;
    }

private:
    /// Either the refusal of a request, or its route and caller.
    struct Admission {
        std::optional<http::Response> refusal{};
        const Route* route = nullptr;
        Caller caller{};
        std::vector<std::string> path_values{};
    };

    [[nodiscard]] std::string id_of(const http::Request& request) const {
        const std::string_view given = request.header(kRequestId);
        return is_usable_id(given) ? std::string(given) : make_id_();
    }

    /// By the header alone. Who may call comes before what the call is about: a stranger learns nothing from the
    /// answer.
    [[nodiscard]] Admission admit(const http::Request& request, const std::string& id) {
        const auto refused = [&id](int status, std::string_view code, std::string_view message,
                                   http::Headers more = {}) {
            auto response = error_response(status, code, message, id);
            std::ranges::move(more, std::back_inserter(response.headers));
            return Admission{std::move(response)};
        };
        // For who sent it, which is counted and slowed down, so that nobody guesses tokens quickly.
        const auto turned_away = [&](std::string_view reason, Admission admission, std::string_view detail = {}) {
            admission.refusal->delay = refusals_.note(request, reason, detail);
            return admission;
        };
        // Before the route is looked up: a page of another origin must not even learn which paths exist.
        if (auth_.doors.check_host && !is_own_host(request.header("Host"), auth_.doors)) {
            return turned_away("host", refused(421, "MISDIRECTED_REQUEST",
                                               "the header Host names another server; call this one by a loopback "
                                               "address or localhost, or add the name to server.allowed_hosts"));
        }
        if (auth_.doors.check_origin && is_cross_origin(request, auth_.doors)) {
            return turned_away("origin", refused(403, "FORBIDDEN_ORIGIN",
                                                 "a page of another origin may not use this API; configure "
                                                 "auth.tokens, or add the page's host to server.allowed_hosts"));
        }
        auto match = router_.find(request.method, request.path);
        if (match.bad_escape) return refused(400, "BAD_REQUEST", "a percent escape in the path is not UTF-8 text");
        if (match.allowed.empty()) {
            return refused(404, "NOT_FOUND", fmt::format("there is nothing at {}", request.path));
        }
        if (match.route == nullptr) {
            const std::string allowed = fmt::format("{}", fmt::join(match.allowed, ", "));
            return refused(405, "METHOD_NOT_ALLOWED",
                           fmt::format("{} does not support {}, only {}", request.path, request.method, allowed),
                           {{"Allow", allowed}});
        }
        const Route& route = *match.route;
        auto caller = caller_of(request, auth_, clock_.wall_now());
        if (!caller && route.needs != Role::none) {
            return turned_away(caller.error().code,
                               refused(401, "UNAUTHORIZED", "send a valid token as 'Authorization: Bearer TOKEN'",
                                       {{"WWW-Authenticate", "Bearer"}}),
                               caller.error().message);
        }
        // The route is for everybody, so a wrong token is no reason to refuse it: /healthz must answer.
        if (!caller) caller = Caller{"anonymous", Role::none};
        if (caller->role < route.needs) {
            return turned_away("role", refused(403, "FORBIDDEN",
                                               fmt::format("token '{}' has role {}; this needs {}", caller->name,
                                                           role_name(caller->role), role_name(route.needs))));
        }
        if (const std::string why = out_of_scope(route, *caller, match.path_values); !why.empty()) {
            return turned_away("scope", refused(403, "FORBIDDEN", why));
        }
        // It would be ignored, but first it would take memory from `max_total_body_bytes`: callers without a token
        // could fill that by asking for /healthz.
        if (route.method == "GET" && announces_body(request)) {
            return refused(400, "BAD_REQUEST", fmt::format("{} takes no body; send none", request.method));
        }
        // A form of any web page can send other types without a preflight request (api/doors.h).
        if (has_other_body(request)) {
            return refused(415, "UNSUPPORTED_MEDIA_TYPE", "send the body with 'Content-Type: application/json'");
        }
        return {std::nullopt, match.route, std::move(*caller), std::move(match.path_values)};
    }

    void run(const Route& route, const Call& call, const http::Reply& reply) {
        std::string fault = "not a std::exception";
        try {
            if (route.deferred) return route.deferred(call, reply);
            return reply(route.handler(call));
        } catch (const std::exception& error) {
            fault = error.what();
        } catch (...) {  // `fault` says so
        }
        log_.error("request failed", {{"request_id", call.request_id},
                                      {"method", call.request.method},
                                      {"path", call.request.path},
                                      {"error", fault}});
        reply(error_response(500, "INTERNAL_ERROR", "the request failed; the log has the cause under this request id",
                             call.request_id));
    }

    const Router router_;
    const AuthOptions auth_;
    Log& log_;
    const SystemClock clock_;
    Refusals refusals_;
    const std::function<std::string()> make_id_ = uuid_source();
};

http::Response ready(const std::vector<ReadyCheck>& checks, const Call& call) {
    // The message of a database names roles, hosts and paths.
    const bool shows_cause = call.caller.role >= Role::viewer;
    std::vector<Detail> problems;
    for (const auto& check : checks) {
        auto problem = check.problem();
        if (!problem.empty()) problems.push_back({check.name, shows_cause ? std::move(problem) : "is not ready"});
    }
    if (problems.empty()) return json_response(R"({"status":"ready"})");
    const Detail& first = problems.front();
    const std::string message =
        shows_cause ? fmt::format("{}: {}", first.field, first.message)
                    : fmt::format("{} is not ready; ask with a viewer's token for the cause", first.field);
    return error_response(503, "NOT_READY", message, call.request_id, problems);
}

/// Remembers a check's last answer.
class CachedCheck {
public:
    CachedCheck(std::function<std::string()> problem, const Clock& clock) : ask_(std::move(problem)), clock_(clock) {}

    std::string problem() {
        {
            const MutexLock lock(mutex_);
            const bool fresh = known_ && clock_.now() - since_ < kReadyCacheTime;
            // One question at a time: probers that come while the database hangs would take all handler threads.
            if (fresh || (known_ && asking_)) return last_;
            asking_ = true;
        }
        // Without the mutex: a database that does not answer must not hold up the callers that get the last answer.
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
    JsonArray entries;
    const auto add = [&entries](std::string_view field, std::string_view text) {
        JsonObject entry;
        entry.text("field", field);
        entry.text("message", text);
        entries.raw(entry.done());
    };
    const std::size_t shown = std::min(details.size(), kMaxDetails);
    for (const auto& detail : std::span(details).first(shown)) add(detail.field, detail.message);
    if (shown < details.size()) add("", fmt::format("and {} more", details.size() - shown));
    JsonObject error;
    error.text("code", code);
    error.text("message", message);
    error.text("request_id", request_id);
    error.raw("details", entries.done());
    JsonObject body;
    body.raw("error", error.done());
    http::Response response = json_response(body.done());
    response.status = status;
    response.headers.emplace_back(kRequestId, request_id);
    return response;
}

http::Response try_later(std::string_view code, std::string_view message, std::string_view request_id) {
    auto response = error_response(503, code, message, request_id);
    response.headers.emplace_back("Retry-After", kRetryAfterSeconds);
    return response;
}

http::Response database_refused(std::string_view code, std::string_view event, const Error& error,
                                std::string_view request_id, Log& log) {
    log.error(event, {{"request_id", request_id}, {"code", error.code}, {"error", error.message}});
    return error_response(500, code, "the database refused the request; the log has the cause under this request id",
                          request_id);
}

http::Response json_response(std::string body) {
    return {200, {}, "application/json", std::move(body)};
}

http::ErrorBody make_error_body() {
    return [make_id = uuid_source()](int status, std::string_view code, std::string_view message) {
        return error_response(status, code, message, make_id());
    };
}

Handler make_handler(std::vector<Route> routes, AuthOptions auth, Log& log, metrics::Metrics* metrics) {
    auto dispatcher = std::make_shared<Dispatcher>(std::move(routes), std::move(auth), log, metrics);
    return {
        [dispatcher](const http::Request& request, const http::Reply& reply) { dispatcher->handle(request, reply); },
        [dispatcher](const http::Request& head) { return dispatcher->refusal(head); }};
}

std::vector<Route> service_routes(std::vector<ReadyCheck> checks, metrics::Metrics& metrics, const AuthOptions& auth) {
    const auto alive = [](const Call&) { return json_response(R"({"status":"ok"})"); };
    const auto check = [checks = std::move(checks)](const Call& call) { return ready(checks, call); };
    const auto count = [&metrics](const Call&) {
        return http::Response{200, {}, "text/plain; version=0.0.4; charset=utf-8", metrics.text()};
    };
    return {{"GET", "/healthz", Role::none, alive},
            {"GET", "/readyz", Role::none, check},
            {"GET", "/metrics", auth.open_metrics ? Role::none : Role::viewer, count}};
}

}  // namespace deliverd::api
