// For tests: TLS with a certificate nobody signed, and the little of HTTP/2 that a POST needs.
#pragma once

#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/testing/certificates.h"

namespace deliverd::sink {

/// A server-side context with a fresh self-signed certificate for 127.0.0.1 that agrees to speak h2 only. Ignores
/// SIGPIPE, as the program does: OpenSSL raises it when the other side is gone.
inline std::shared_ptr<SSL_CTX> make_tls_context() {
    std::signal(SIGPIPE, SIG_IGN);
    const auto own = http::make_certificate("127.0.0.1");
    std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
    if (SSL_CTX_use_certificate(context.get(), own.certificate.get()) != 1 ||
        SSL_CTX_use_PrivateKey(context.get(), own.key.get()) != 1) {
        std::abort();
    }
    SSL_CTX_set_alpn_select_cb(
        context.get(),
        [](SSL*, const unsigned char** out, unsigned char* size, const unsigned char* in, unsigned in_size, void*) {
            static constexpr unsigned char kH2[] = {2, 'h', '2'};
            return SSL_select_next_proto(const_cast<unsigned char**>(out), size, kH2, sizeof kH2, in, in_size) ==
                           OPENSSL_NPN_NEGOTIATED
                       ? SSL_TLSEXT_ERR_OK
                       : SSL_TLSEXT_ERR_ALERT_FATAL;
        },
        nullptr);
    return context;
}

/// The context's certificate, as a `ca_file` has it.
inline std::string certificate_pem(SSL_CTX* context) {
    const std::unique_ptr<BIO, int (*)(BIO*)> out(BIO_new(BIO_s_mem()), BIO_free);
    PEM_write_bio_X509(out.get(), SSL_CTX_get0_certificate(context));
    char* text = nullptr;
    const auto size = BIO_get_mem_data(out.get(), &text);
    return {text, static_cast<std::size_t>(size)};
}

/// One HTTP/2 connection, seen from the server (RFC 9113): enough to receive requests and answer 200.
class H2Peer {
public:
    H2Peer(SSL_CTX* context, int fd) : ssl_(SSL_new(context), SSL_free) {
        SSL_set_fd(ssl_.get(), fd);
        if (SSL_accept(ssl_.get()) != 1) return;
        std::array<char, 24> preface{};  // "PRI * HTTP/2.0…"
        open_ = read(preface.data(), preface.size()) && write_frame(kSettings, 0, 0, "");
    }

    [[nodiscard]] bool open() const { return open_; }

    /// The stream of the next request that has arrived whole; none when the client is gone.
    std::optional<std::uint32_t> next_request() {
        while (open_) {
            std::array<unsigned char, 9> head{};
            if (!read(reinterpret_cast<char*>(head.data()), head.size())) break;
            std::string payload(number(&head[0], 3), '\0');
            if (!payload.empty() && !read(payload.data(), payload.size())) break;
            const auto type = head[3];
            const auto flags = head[4];
            const std::uint32_t stream = number(&head[5], 4) & 0x7FFFFFFFU;
            if (type == kSettings && (flags & kAck) == 0) write_frame(kSettings, kAck, 0, "");
            if ((type == kData || type == kHeaders) && (flags & kEndStream) != 0) return stream;
        }
        open_ = false;
        return std::nullopt;
    }

    void answer_200(std::uint32_t stream) {
        write_frame(kHeaders, kEndHeaders | kEndStream, stream, "\x88");  // ":status: 200" in the static table
    }

private:
    static constexpr unsigned char kData = 0, kHeaders = 1, kSettings = 4;
    static constexpr unsigned char kEndStream = 1, kAck = 1, kEndHeaders = 4;

    static std::uint32_t number(const unsigned char* bytes, std::size_t count) {
        std::uint32_t value = 0;
        for (std::size_t i = 0; i < count; ++i) value = (value << 8U) | bytes[i];
        return value;
    }

    bool read(char* out, std::size_t size) {
        while (size > 0) {
            const int count = SSL_read(ssl_.get(), out, static_cast<int>(size));
            if (count <= 0) return false;
            out += count;
            size -= static_cast<std::size_t>(count);
        }
        return true;
    }

    bool write_frame(unsigned char type, unsigned char flags, std::uint32_t stream, std::string_view payload) {
        std::string frame = {0, 0, static_cast<char>(payload.size()), static_cast<char>(type),
                             static_cast<char>(flags)};
        for (const unsigned shift : {24U, 16U, 8U, 0U}) frame.push_back(static_cast<char>(stream >> shift));
        frame += payload;
        return SSL_write(ssl_.get(), frame.data(), static_cast<int>(frame.size())) > 0;
    }

    std::unique_ptr<SSL, void (*)(SSL*)> ssl_;
    bool open_ = false;
};

}  // namespace deliverd::sink
