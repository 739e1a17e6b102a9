// What a browser's request gives away about the page that made it. Pure.
//
// Without tokens everyone who reaches the server may do everything, and every web page that is open on this machine
// reaches it: through a form, a fetch, or a name of its own that it points at 127.0.0.1 (DNS rebinding). A page can
// neither choose the Host and Origin its browser sends nor claim that a body is JSON without asking first.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "http/server.h"

namespace deliverd::api {

struct DoorOptions {
    bool check_host = false;    // Host must be loopback, localhost or one of `allowed_hosts`
    bool check_origin = false;  // Origin, where there is one, must be the server's own; Sec-Fetch-Site not cross-site
    /// "name" or "name:port". Without a port, any port of Host and the default port of Origin.
    std::vector<std::string> allowed_hosts{};
    bool https_only = false;  // the server speaks TLS: an Origin of plain HTTP is not its own
};

/// Whether the server is meant by this Host header.
[[nodiscard]] bool is_own_host(std::string_view host, const DoorOptions& doors);

/// Whether a page of another origin made the request.
[[nodiscard]] bool is_cross_origin(const http::Request& request, const DoorOptions& doors);

/// Whether the header announces a body of more than nothing.
[[nodiscard]] bool announces_body(const http::Request& request);

/// Whether the header announces a body that is not called JSON (application/json, application/…+json).
[[nodiscard]] bool has_other_body(const http::Request& request);

/// Whether `text` may stand in `allowed_hosts`.
[[nodiscard]] bool is_host_name(std::string_view text);

}  // namespace deliverd::api
