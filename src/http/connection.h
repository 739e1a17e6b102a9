// A client's connection, plain or TLS, as the one stream type that sessions read and write.
#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <memory>
#include <new>
#include <utility>

#include "base/clock.h"

namespace deliverd::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using boost::system::error_code;
using Executor = asio::io_context::executor_type;
using Socket = asio::basic_stream_socket<tcp, Executor>;

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

}  // namespace deliverd::http
