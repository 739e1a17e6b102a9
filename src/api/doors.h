// What a browser's request reveals about the page that made it. Pure.
//
// Without tokens, everyone who reaches the server may do everything, and every web page that is open on this machine
// reaches it: with a form, with fetch(), or by pointing its own name at 127.0.0.1 (DNS rebinding). But a page cannot
// choose the Host and Origin that its browser sends, nor give a body a JSON content type without a preflight request.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "http/messages.h"

namespace deliverd::api {

struct DoorOptions {
    bool check_host = false;    // Host must be loopback, localhost or one of `allowed_hosts`
    bool check_origin = false;  // Origin, where there is one, must be the server's own; Sec-Fetch-Site not cross-site
    /// "name" or "name:port". Without a port, any port of Host and the default port of Origin.
    std::vector<std::string> allowed_hosts{};
    bool https_only = false;  // the server speaks TLS: an Origin of plain HTTP is not its own
};

/// Whether this Host header names the server.
[[nodiscard]] bool is_own_host(std::string_view host, const DoorOptions& doors);

/// Whether a page of another origin made the request.
[[nodiscard]] bool is_cross_origin(const http::Request& request, const DoorOptions& doors);

/// Whether the header announces a body of more than nothing.
[[nodiscard]] bool announces_body(const http::Request& request);

/// Whether the header announces a body whose content type is not JSON (application/json, application/…+json).
[[nodiscard]] bool has_other_body(const http::Request& request);

/// Whether `text` is valid in `allowed_hosts`.
[[nodiscard]] bool is_host_name(std::string_view text);

/// Whether only this machine can reach a server bound to `host`: 127.0.0.0/8, ::1 or localhost. Without auth, nothing
/// else may be bound. Names are not looked up: any other name is not loopback.
[[nodiscard]] bool is_loopback(std::string_view host);

}  // namespace deliverd::api
