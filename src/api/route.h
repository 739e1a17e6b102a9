// A route: method and path, who may call it, and what answers.
#pragma once

#include <functional>
#include <string>
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

}  // namespace deliverd::api
