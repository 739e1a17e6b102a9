// The parts of HTTP/1.1 that need no Boost: parsing a request target, writing a response head.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "http/messages.h"

namespace deliverd::http {

struct Target {
    std::string_view path;
    std::string_view query;
    std::string_view authority;  // "host:port" of absolute-form, which replaces the header Host; else empty
};

/// Parses origin-form ("/a?b"), absolute-form ("http://host/a?b") and "*"; none for anything else.
/// The views point into `target`.
[[nodiscard]] std::optional<Target> parse_target(std::string_view target);

/// Upper-case letters, digits, '-' and '_' only, and not too long.
[[nodiscard]] bool is_sane_method(std::string_view method);

struct HeadOptions {
    unsigned minor_version = 1;  // the client's: an HTTP/1.0 client needs `Connection: keep-alive`
    bool keep_alive = true;
    std::string_view reason;  // "Not Found"
};

/// Status line and headers up to and including the empty line. Content-Length, Connection and Date are
/// written here and not taken from the response; line breaks in a header's value become spaces.
[[nodiscard]] std::string response_head(const Response& response, const HeadOptions& options, WallTime now);

/// Whether a response with this status carries a body at all.
[[nodiscard]] constexpr bool status_has_body(int status) {
    return status >= 200 && status != 204 && status != 304;
}

}  // namespace deliverd::http
