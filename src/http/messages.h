// What passes between a server and its user: requests, responses, the functions that turn one into the other, options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace deliverd::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Request {
    std::string method;  // upper case
    std::string path;    // percent-encoded as received, without the query
    std::string query;   // without '?'
    Headers headers;
    std::string body;
    std::string remote_address;

    /// First header with this name, compared without case; empty when absent.
    [[nodiscard]] std::string_view header(std::string_view name) const;
};

struct Response {
    int status = 200;
    Headers headers;
    std::string content_type = "application/json";
    std::string body;
    Duration delay{};  // the server waits this long before it writes the response
};

/// Called on one of `handler_threads` threads; may block (but see `is_quick`). An exception becomes a bare 500.
using Handler = std::function<Response(const Request&)>;

/// Answers one request: once, from any thread, also long after the handler has returned. All copies are the same reply;
/// a second answer is ignored. If the last copy is destroyed without an answer, the client gets a bare 500. After the
/// server has stopped, an answer has no effect; a reply may outlive the server. Does not block.
class Reply {
public:
    explicit Reply(std::function<void(Response)> deliver);
    void operator()(Response response) const;

private:
    struct State;
    std::shared_ptr<State> state_;
};

/// A Handler whose answer may come later, so that a waiting request holds no thread. The request stays valid until it
/// is answered. A connection has one request at a time, so at most `max_connections` requests wait.
using DeferredHandler = std::function<void(const Request&, Reply)>;

/// Makes the response for errors that the server itself finds (malformed request, body too large, …), so that all
/// errors look alike. Called on the I/O thread: must not block.
using ErrorBody = std::function<Response(int status, std::string_view code, std::string_view message)>;

/// Sees a request whose body has not been read; a response refuses it. Called on the I/O thread: must not block.
using Refuse = std::function<std::optional<Response>(const Request&)>;

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
