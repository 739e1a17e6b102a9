// For tests: a TLS client with deadlines that trusts every server.
#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <csignal>
#include <memory>
#include <string>
#include <string_view>

#include "http/testing/certificates.h"
#include "http/testing/raw_client.h"

namespace deliverd::http {

struct TlsClientOptions {
    int version = 0;  // 0: any from TLS 1.2 on
    const TestCertificate* identity = nullptr;
    SSL_SESSION* resumed = nullptr;
    const char* ciphers = "ALL:@SECLEVEL=0";  // offered with `version`: old versions are offered only with this
};

class TlsClient {
public:
    explicit TlsClient(std::uint16_t port, const TlsClientOptions& options = {})
        : raw_(port), context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free) {
        std::signal(SIGPIPE, SIG_IGN);  // OpenSSL raises it when the other side is gone
        const timeval patience{std::chrono::seconds(RawClient::kPatience).count(), 0};
        setsockopt(raw_.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        setsockopt(raw_.fd(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        if (options.version != 0) {
            SSL_CTX_set_cipher_list(context_.get(), options.ciphers);
            SSL_CTX_set_min_proto_version(context_.get(), options.version);
            SSL_CTX_set_max_proto_version(context_.get(), options.version);
        }
        if (options.identity != nullptr) {
            SSL_CTX_use_certificate(context_.get(), options.identity->certificate.get());
            SSL_CTX_use_PrivateKey(context_.get(), options.identity->key.get());
        }
        ssl_.reset(SSL_new(context_.get()));
        SSL_set_fd(ssl_.get(), raw_.fd());
        if (options.resumed != nullptr) SSL_set_session(ssl_.get(), options.resumed);
        connected_ = succeeded(SSL_connect(ssl_.get()));
    }

    /// With TLS 1.3 that says nothing yet about a client's certificate: the server's refusal comes later.
    [[nodiscard]] bool connected() const { return connected_; }
    [[nodiscard]] SSL* ssl() { return ssl_.get(); }

    bool send(std::string_view bytes) {
        return succeeded(SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())));
    }

    /// One response; what was read so far when the connection ended before.
    std::string response() {
        std::size_t end = std::string::npos;
        while ((end = pending_.find("\r\n\r\n")) == std::string::npos) {
            if (!fill()) return std::exchange(pending_, {});
        }
        std::size_t size = end + 4;
        const auto length = pending_.find("Content-Length: ");
        if (length < end) size += std::strtoul(pending_.c_str() + length + 16, nullptr, 10);
        while (pending_.size() < size && fill()) {
        }
        std::string one = pending_.substr(0, size);
        pending_.erase(0, size);
        return one;
    }

    /// The response to `GET path`.
    std::string get(const std::string& path) {
        return send("GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n") ? response() : std::string();
    }

    /// Whether the server ends the connection in TLS's own words (close_notify), not just TCP's.
    bool closed_cleanly() {
        while (fill()) {
        }
        return error_ == SSL_ERROR_ZERO_RETURN;
    }

    /// Whom the server says it is.
    [[nodiscard]] std::string server_name() const {
        const X509* certificate = SSL_get0_peer_certificate(ssl_.get());
        std::array<char, 100> name{};
        X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name.data(), name.size());
        return name.data();
    }

    /// Why the last call failed, in OpenSSL's words.
    [[nodiscard]] const std::string& reason() const { return reason_; }

private:
    bool succeeded(int result) {
        if (result > 0) return true;
        error_ = SSL_get_error(ssl_.get(), result);
        const char* reason = ERR_reason_error_string(ERR_peek_error());
        reason_ = reason == nullptr ? "" : reason;
        ERR_clear_error();
        return false;
    }

    bool fill() {
        std::array<char, 16384> chunk{};
        const int count = SSL_read(ssl_.get(), chunk.data(), chunk.size());
        if (!succeeded(count)) return false;
        pending_.append(chunk.data(), static_cast<std::size_t>(count));
        return true;
    }

    RawClient raw_;
    std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_;
    std::unique_ptr<SSL, void (*)(SSL*)> ssl_{nullptr, SSL_free};
    bool connected_ = false;
    std::string pending_;
    int error_ = SSL_ERROR_NONE;
    std::string reason_;
};

}  // namespace deliverd::http
