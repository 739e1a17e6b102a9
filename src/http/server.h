// A small HTTP/1.1 server. This header shows no Boost, because Beast costs many seconds a translation unit.
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
#include "deliverd/result.h"

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
    Duration delay{};  // the server waits so long before it writes it
};

/// Called on one of `handler_threads` threads; may block (but see `is_quick`). An exception becomes a bare 500.
using Handler = std::function<Response(const Request&)>;

/// Answers one request: once, from any thread, also long after the handler has returned. Copies are the same reply; a
/// second answer is ignored. When the last copy goes without an answer, the client gets a bare 500. After the server's
/// stop an answer does nothing; a reply may outlive the server. Does not block.
class Reply {
public:
    explicit Reply(std::function<void(Response)> deliver);
    void operator()(Response response) const;

private:
    struct State;
    std::shared_ptr<State> state_;
};

/// As a Handler, but the answer may come later, so that a request that waits for something holds no thread. The request
/// stays valid until it is answered. A connection has one request at a time, so at most `max_connections` wait.
using DeferredHandler = std::function<void(const Request&, Reply)>;

/// Makes the body of errors the server itself finds (malformed request, body too large, …), so that they
/// look like everyone else's. Called on an I/O thread: must not block.
using ErrorBody = std::function<Response(int status, std::string_view code, std::string_view message)>;

/// An answer refuses a request, of which only the header is there. Called on an I/O thread: must not block.
using Refuse = std::function<std::optional<Response>(const Request&)>;

/// PEM files of a server that speaks TLS.
struct TlsFiles {
    std::string cert_file;       // the certificate, and after it those between it and its authority
    std::string key_file;        // may be the same file
    std::string client_ca_file;  // clients need a certificate of these authorities; empty: they need none
};

struct ServerOptions {
    std::string host = "127.0.0.1";
    std::uint16_t port = 8080;  // 0: any free one
    std::size_t handler_threads = 4;
    /// At the limit a new connection takes the place of the one that has waited longest for a whole request header, or
    /// else for its body; when all requests are being handled or answered it is answered 503 and closed.
    std::size_t max_connections = 1024;
    std::size_t max_queued_requests = 1024;  // waiting for a handler thread; further ones get 503
    std::size_t max_header_bytes = 16 * 1024;
    std::size_t max_body_bytes = 1024 * 1024;
    /// Of all requests that are being read or handled; what comes on top gets 503.
    std::size_t max_total_body_bytes = 64 * 1024 * 1024;
    /// From the first byte (or accept) to the end of the header. A TLS handshake has as much time before that.
    Duration header_timeout = std::chrono::seconds(10);
    Duration body_timeout = std::chrono::seconds(30);  // from there to the end of the body
    Duration idle_timeout = std::chrono::seconds(60);  // keep-alive without a request
    Duration write_timeout = std::chrono::seconds(30);
    /// Requests that it says yes to are handled on the I/O thread, without the two thread switches of a handler thread
    /// and without waiting for a free one: their handler must be short and must not block. None when empty. Called on
    /// the I/O thread.
    std::function<bool(const Request&)> is_quick = {};
    /// Asked before a request's body is read; a refused one is not read. None is refused when empty.
    Refuse refuse = {};
    std::optional<TlsFiles> tls = {};  // serves TLS 1.2 or later; none: plain HTTP
};

class Server {
public:
    virtual ~Server() = default;  // stops without patience

    /// Binds and starts serving on threads of its own. Failure: code `bind_failed`, naming address and cause, or that
    /// of load_tls() (http/tls.h).
    static Result<std::unique_ptr<Server>> start(const ServerOptions& options, Handler handler, ErrorBody error_body);
    static Result<std::unique_ptr<Server>> start(const ServerOptions& options, DeferredHandler handler,
                                                 ErrorBody error_body);

    /// The port in use, also when 0 was asked for.
    [[nodiscard]] virtual std::uint16_t port() const = 0;

    /// Of a server with `tls`: reads its files again, for connections that come after this; those there are keep their
    /// certificate. Returns until when the new one is valid. Failure: that of load_tls(); what is in use stays so.
    /// Thread-safe.
    virtual Result<WallTime> reload_tls() = 0;

    /// Accepts nothing more, lets requests under way finish (also those that wait for a reply) for up to `patience`,
    /// then closes all connections and joins the threads. Idempotent.
    virtual void stop(Duration patience) = 0;
};

}  // namespace deliverd::http
