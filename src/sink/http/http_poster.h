// One HTTP POST after another, each to an address of its own that comes from data, not from the configuration.
//
// Redirects are not followed, no proxy is used, and unless `allow_private` is set no connection is made to an address
// that is not public: the address itself is checked, when the connection is made.
#pragma once

#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "deliverd/result.h"

namespace deliverd::sink {

struct HttpPosterOptions {
    std::string token{};  // bearer; empty: none. Never shown.
    /// The token goes only to these hosts, over https, or over http to loopback. Others get the request without it.
    std::vector<std::string> token_hosts{};
    bool allow_private = false;
    Duration connect_timeout = std::chrono::seconds(3);
    Duration timeout = std::chrono::seconds(10);  // whole request
};

struct PostAnswer {
    int status = 0;         // 0: no answer
    std::string code{};     // "503", NETWORK_TIMEOUT, PRIVATE_ADDRESS, BAD_ENDPOINT, STOPPED; empty for a 2xx
    std::string problem{};  // one line for people
    std::optional<Duration> retry_after{};
    [[nodiscard]] bool is_success() const { return status >= 200 && status < 300; }
};

/// One thread at a time, except stop(). Connections are kept from one post to the next.
class HttpPoster {
public:
    virtual ~HttpPoster() = default;

    /// Sends `body` as application/json, with `key` as Idempotency-Key if it can be a header. Blocks for at most
    /// `timeout`. Sends it once: a kept connection that ends before an answer comes is a failed post.
    virtual PostAnswer post(const std::string& url, const std::string& body, const std::string& key) = 0;

    /// Ends a post under way within about a second and every later one at once: code STOPPED. Thread-safe.
    virtual void stop() = 0;
};

/// Failure (permanent, `bad_argument`): a token that cannot be a header, an invalid token host.
[[nodiscard]] Result<std::unique_ptr<HttpPoster>> make_http_poster(HttpPosterOptions options);

/// Whether the address is not one of the public internet: loopback, private, link-local, shared, multicast, reserved,
/// an IPv6 form of such an IPv4 address, or neither IPv4 nor IPv6.
[[nodiscard]] bool is_private_address(const sockaddr& address);

}  // namespace deliverd::sink
