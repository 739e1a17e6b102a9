// A route: method and path, who may call it, and what answers; and which route a path has. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/auth.h"
#include "http/messages.h"

namespace deliverd::api {

struct Call {
    const http::Request& request;
    std::string request_id;
    Caller caller;
    std::vector<std::string> path_values;  // of the {parameters} of the route, percent-decoded
};

/// What callers who are limited to topics (Caller::scope) may do with a route.
enum class Limited {
    refused,     // 403: it is about all topics, or about none
    open,        // everything: nothing in it belongs to a topic
    by_topic,    // the first {parameter} of the path is a topic; 403 if that is not in scope
    by_handler,  // its handler shows and changes only what is in scope
};

struct Route {
    std::string method;
    std::string path;  // "/api/v1/orders/{key}"
    Role needs = Role::viewer;
    std::function<http::Response(const Call&)> handler{};
    /// Instead of `handler`, for an answer that comes later. The Call is destroyed once this returns; copies of it, and
    /// the request it refers to, are valid until the answer is given.
    std::function<void(const Call&, http::Reply)> deferred{};
    Limited limited = Limited::refused;  // has no effect if `needs` is none
};

/// The text behind percent escapes; none for a broken escape, a NUL or bytes that are not UTF-8.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text);

class Router {
public:
    explicit Router(std::vector<Route> routes);

    struct Match {
        const Route* route = nullptr;          // null: no route, or none with this method
        std::vector<std::string> path_values;  // of the {parameters}, percent-decoded
        std::vector<std::string> allowed;      // the methods of the path; empty: unknown path
        bool bad_escape = false;               // a {parameter} cannot be decoded
    };

    /// Literal segments match byte by byte, before percent-decoding: /%6detrics is not /metrics.
    [[nodiscard]] Match find(std::string_view method, std::string_view path) const;

private:
    struct Entry {
        Route route;
        std::vector<std::string> segments;
    };
    std::vector<Entry> entries_;  // literal segments before parameters
};

}  // namespace deliverd::api
