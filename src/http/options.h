// The options of a server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "http/messages.h"

namespace deliverd::http {

/// PEM files of a server that speaks TLS.
struct TlsFiles {
    std::string cert_file;       // the server's certificate, followed by the intermediate ones
    std::string key_file;        // may be the same file
    std::string client_ca_file;  // clients need a certificate of one of these authorities; empty: none is needed
};

struct ServerOptions {
    std::string host = "127.0.0.1";
    std::uint16_t port = 8080;  // 0: any free one
    std::size_t handler_threads = 4;
    /// At the limit, a new connection replaces the one that has waited longest for a whole request header, or else for
    /// a request body. If every connection has a request under way, the new one gets 503.
    std::size_t max_connections = 1024;
    std::size_t max_queued_requests = 1024;  // waiting for a handler thread; beyond that: 503
    std::size_t max_header_bytes = 16 * 1024;
    std::size_t max_body_bytes = 1024 * 1024;
    /// Of all requests that are being read or handled; beyond that: 503.
    std::size_t max_total_body_bytes = 64 * 1024 * 1024;
    /// From the first byte (or accept) to the end of the header. A TLS handshake may take as long again before that.
    Duration header_timeout = std::chrono::seconds(10);
    Duration body_timeout = std::chrono::seconds(30);  // from there to the end of the body
    Duration idle_timeout = std::chrono::seconds(60);  // keep-alive without a request
    Duration write_timeout = std::chrono::seconds(30);
    /// Selects the requests to handle on the I/O thread, which saves two thread switches and the wait for a free
    /// handler thread: their handler must be short and must not block. Empty: none. Called on the I/O thread.
    std::function<bool(const Request&)> is_quick = {};
    /// Called before a request's body is read; the body of a refused request is not read. Empty: none is refused.
    Refuse refuse = {};
    std::optional<TlsFiles> tls = {};  // serves TLS 1.2 or later; none: plain HTTP
};

}  // namespace deliverd::http
