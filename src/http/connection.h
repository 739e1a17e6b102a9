// A client's connection, plain or TLS, as the one stream type that sessions read and write; and which requests on it
// are refused before anybody handles them.
#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "http/wire.h"

namespace deliverd::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using boost::system::error_code;
using Executor = asio::io_context::executor_type;
using Socket = asio::basic_stream_socket<tcp, Executor>;
using Parser = beast::http::request_parser<beast::http::string_body>;

/// One read or write at a time. Deadlines hold for TLS too, because TLS reads and writes the plain stream.
class Connection {
public:
    using executor_type = Executor;

    /// TLS where `context` is not null. Throws when there is no memory for it.
    Connection(Socket socket, SSL_CTX* context) : plain_(std::move(socket)) {
        if (context == nullptr) return;
        SSL* ssl = SSL_new(context);  // keeps the context
        if (ssl == nullptr) throw std::bad_alloc();
        tls_ = std::make_unique<asio::ssl::stream<Plain&>>(plain_, ssl);
    }

    [[nodiscard]] executor_type get_executor() { return plain_.get_executor(); }
    [[nodiscard]] Socket& socket() { return plain_.socket(); }
    void expires_after(Duration patience) { plain_.expires_after(patience); }
    void expires_never() { plain_.expires_never(); }

    template <typename Buffers, typename Handler>
    void async_read_some(const Buffers& buffers, Handler&& handler) {
        if (tls_) return tls_->async_read_some(buffers, std::forward<Handler>(handler));
        plain_.async_read_some(buffers, std::forward<Handler>(handler));
    }

    template <typename Buffers, typename Handler>
    void async_write_some(const Buffers& buffers, Handler&& handler) {
        if (tls_) return tls_->async_write_some(buffers, std::forward<Handler>(handler));
        plain_.async_write_some(buffers, std::forward<Handler>(handler));
    }

    [[nodiscard]] bool is_tls() const { return tls_ != nullptr; }

    /// Only with TLS.
    template <typename Handler>
    void async_handshake(Handler&& handler) {
        tls_->async_handshake(asio::ssl::stream_base::server, std::forward<Handler>(handler));
    }

    /// Only with TLS: announces the end of the stream and waits for the client to do the same.
    template <typename Handler>
    void async_shutdown(Handler&& handler) {
        tls_->async_shutdown(std::forward<Handler>(handler));
    }

    /// Plain from now on. For use after a failed handshake and after async_shutdown().
    void end_tls() { tls_.reset(); }

private:
    using Plain = beast::basic_stream<tcp, Executor>;

    Plain plain_;
    std::unique_ptr<asio::ssl::stream<Plain&>> tls_;
};

/// Whether a handshake failed with `error` because the client began with a plain request.
inline bool is_plain_http(const error_code& error) {
    return error.category() == asio::error::get_ssl_category() &&
           ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_HTTP_REQUEST;
}

struct Refusal {
    int status;
    std::string_view code;
    std::string_view message;
};

/// Refuses what the parser accepts but two readers could interpret differently, above all the length of a request.
inline std::optional<Refusal> refusal_of(const Parser& parser) {
    const auto& request = parser.get();
    using beast::http::field;
    if (request.version() != 11 && request.version() != 10) {
        return Refusal{505, "VERSION_NOT_SUPPORTED", "this server supports HTTP/1.1 and HTTP/1.0 only"};
    }
    if (request.count(field::host) > 1 || (request.version() == 11 && request.count(field::host) == 0)) {
        return Refusal{400, "BAD_REQUEST", "an HTTP/1.1 request has exactly one Host header"};
    }
    const auto coding = request.find(field::transfer_encoding);
    if (coding != request.end()) {
        if (request.version() == 10 || request.count(field::transfer_encoding) != 1) {
            return Refusal{400, "BAD_REQUEST", "Transfer-Encoding is not allowed here"};
        }
        if (!equal_ignoring_case(coding->value(), "chunked")) {
            return Refusal{501, "NOT_IMPLEMENTED", "chunked is the only supported transfer coding"};
        }
    }
    if (request.count(field::expect) > 0 && !equal_ignoring_case(request[field::expect], "100-continue")) {
        return Refusal{417, "EXPECTATION_FAILED", "100-continue is the only supported expectation"};
    }
    if (!is_sane_method(request.method_string())) {
        return Refusal{400, "BAD_REQUEST", "the method is invalid: write it in upper case"};
    }
    if (!parse_target(request.target())) {
        return Refusal{400, "BAD_REQUEST", "the request target is neither a path nor an http URL"};
    }
    return std::nullopt;
}

/// The refusal for a parser error; none if the client has gone or was too slow.
inline std::optional<Refusal> refusal_of(const error_code& error) {
    using Kind = beast::http::error;
    if (error == Kind::end_of_stream || error == Kind::partial_message) return std::nullopt;
    if (error == Kind::header_limit || error == Kind::buffer_overflow) {
        return Refusal{431, "HEADERS_TOO_LARGE", "the request's header is larger than this server accepts"};
    }
    if (error == Kind::body_limit) {
        return Refusal{413, "PAYLOAD_TOO_LARGE", "the request's body is larger than this server accepts"};
    }
    if (error.category() != make_error_code(Kind::bad_method).category()) return std::nullopt;
    return Refusal{400, "BAD_REQUEST", "the request is not well-formed HTTP"};
}

}  // namespace deliverd::http
