// How a connection begins: socket, TLS, login, channel.
#include <amqp.h>
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <array>
#include <exception>

#include "base/text.h"
#include "base/try.h"
#include "sink/rabbitmq/connection.h"
#include "sink/secret_file.h"
#include "sink/sink.h"

namespace deliverd::sink {

namespace {

constexpr int kMaxChannels = 1;
constexpr int kMaxFrameBytes = 64 * 1024;

timeval left_until(Instant deadline) {
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(deadline - SystemClock().now()).count();
    const auto micros = std::max<std::int64_t>(left, 1);
    return {micros / 1'000'000, micros % 1'000'000};
}

/// Why a call that waits for the server's answer failed.
struct Refusal {
    int code = 0;  // AMQP's reply code; 0: no answer
    std::string why{};
};

Refusal refusal_of(const amqp_rpc_reply_t& reply) {
    if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION) {
        if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
            const auto* close = static_cast<const amqp_connection_close_t*>(reply.reply.decoded);
            return {close->reply_code, text_of(close->reply_text)};
        }
        if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
            const auto* close = static_cast<const amqp_channel_close_t*>(reply.reply.decoded);
            return {close->reply_code, text_of(close->reply_text)};
        }
        return {0, "an unexpected answer"};
    }
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION) {
        if (reply.library_error == AMQP_STATUS_TIMEOUT) return {0, "no answer in time"};
        return {0, amqp_error_string2(reply.library_error)};
    }
    return {0, "no answer"};
}

Failure unreachable(const AmqpUrl& url, std::string_view why) {
    return retryable(std::string(kBrokerUnreachable),
                     fmt::format("cannot reach RabbitMQ at {}: {}; is it running, and the sink's url right?",
                                 url.server.place(), why));
}

/// Keeps OpenSSL's reason for refusing a certificate: the client library only reports a failure.
int note_certificate_problem(int good, X509_STORE_CTX* store) {
    if (good == 1) return good;
    const auto* ssl = static_cast<const SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto* problem = static_cast<std::string*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
    *problem = X509_verify_cert_error_string(X509_STORE_CTX_get_error(store));
    return good;
}

/// Lets OpenSSL compare the name: the client library's own comparison does not know IP addresses.
bool expect_host(SSL_CTX* context, const std::string& host) {
    X509_VERIFY_PARAM* parameters = SSL_CTX_get0_param(context);
    std::array<unsigned char, sizeof(in6_addr)> address{};
    const bool is_address = ::inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
                            ::inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
    return (is_address ? X509_VERIFY_PARAM_set1_ip_asc(parameters, host.c_str())
                       : X509_VERIFY_PARAM_set1_host(parameters, host.c_str(), host.size())) == 1;
}

}  // namespace

Result<std::unique_ptr<RabbitmqConnection>> RabbitmqConnection::open(const RabbitmqTarget& target, Duration limit,
                                                                     SocketCutter& cutter) {
    try {
        const Instant deadline = SystemClock().now() + limit;
        std::unique_ptr<RabbitmqConnection> connection(new RabbitmqConnection(target, cutter));
        TRY(connection->connect(deadline));
        TRY(connection->log_in(deadline));
        TRY(connection->open_channel(deadline));
        return connection;
    } catch (const std::exception& error) {
        return unreachable(target.url, error.what());
    }
}

Result<amqp_socket_t*> RabbitmqConnection::make_socket() {
    const auto& options = target_.options;
    if (!target_.url.tls) {
        if (auto* plain = amqp_tcp_socket_new(state_.get())) return plain;
        return unreachable(target_.url, "no memory for a socket");
    }
    auto* socket = amqp_ssl_socket_new(state_.get());
    if (socket == nullptr) return unreachable(target_.url, "TLS could not be set up");
    auto* context = static_cast<SSL_CTX*>(amqp_ssl_socket_get_context(socket));
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    amqp_ssl_socket_set_verify_hostname(socket, 0);
    amqp_ssl_socket_set_verify_peer(socket, options.verify_tls ? 1 : 0);
    if (!options.verify_tls) return socket;
    SSL_CTX_set_app_data(context, &certificate_problem_);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, note_certificate_problem);
    const bool has_authorities = options.ca_file.empty()
                                     ? SSL_CTX_set_default_verify_paths(context) == 1
                                     : amqp_ssl_socket_set_cacert(socket, options.ca_file.c_str()) == AMQP_STATUS_OK;
    if (!has_authorities) {
        return unreachable(target_.url, fmt::format("the certificate authorities in {} cannot be read",
                                                    options.ca_file.empty() ? "the system's store" : options.ca_file));
    }
    if (!expect_host(context, target_.url.server.host)) return unreachable(target_.url, "its name cannot be verified");
    return socket;
}

Result<void> RabbitmqConnection::connect(Instant deadline) {
    TRY_ASSIGN(const auto socket, make_socket());
    timeval left = left_until(deadline);
    const int status =
        amqp_socket_open_noblock(socket, target_.url.server.host.c_str(), target_.url.server.port, &left);
    if (status == AMQP_STATUS_OK) {
        fd_ = amqp_get_sockfd(state_.get());
        cutter_.set(fd_);
        return {};
    }
    if (!certificate_problem_.empty()) {
        return unreachable(target_.url, fmt::format("its TLS certificate is not accepted ({})", certificate_problem_));
    }
    if (status == AMQP_STATUS_SOCKET_ERROR)
        return unreachable(target_.url, "the connection was refused, or there is no route to it");
    return unreachable(target_.url,
                       status == AMQP_STATUS_TIMEOUT ? "no connection in time" : amqp_error_string2(status));
}

Result<void> RabbitmqConnection::log_in(Instant deadline) {
    std::string password = target_.url.server.password;
    if (!target_.options.password_file.empty()) {
        SecretFile file(target_.options.password_file, kPassword);
        TRY_ASSIGN(password, file.read());
    }
    const auto yes = [](const char* name) {
        amqp_table_entry_t entry{};
        entry.key = amqp_cstring_bytes(name);
        entry.value.kind = AMQP_FIELD_KIND_BOOLEAN;
        entry.value.value.boolean = 1;
        return entry;
    };
    // They let the server say why it refuses a login, and when it takes no messages for now.
    std::array capabilities{yes("authentication_failure_close"), yes("connection.blocked"), yes("publisher_confirms"),
                            yes("basic.nack")};
    std::array<amqp_table_entry_t, 2> entries{};
    entries[0].key = amqp_cstring_bytes("capabilities");
    entries[0].value.kind = AMQP_FIELD_KIND_TABLE;
    entries[0].value.value.table = {static_cast<int>(capabilities.size()), capabilities.data()};
    entries[1].key = amqp_cstring_bytes("connection_name");
    entries[1].value.kind = AMQP_FIELD_KIND_UTF8;
    entries[1].value.value.bytes = amqp_cstring_bytes("deliverd");
    const amqp_table_t properties{static_cast<int>(entries.size()), entries.data()};
    const timeval left = left_until(deadline);
    amqp_set_handshake_timeout(state_.get(), &left);
    amqp_set_rpc_timeout(state_.get(), &left);
    const auto heartbeat = std::chrono::duration_cast<std::chrono::seconds>(target_.options.heartbeat).count();
    const auto reply = amqp_login_with_properties(state_.get(), target_.url.vhost.c_str(), kMaxChannels, kMaxFrameBytes,
                                                  static_cast<int>(heartbeat), &properties, AMQP_SASL_METHOD_PLAIN,
                                                  target_.url.server.user.c_str(), password.c_str());
    if (reply.reply_type == AMQP_RESPONSE_NORMAL) return {};
    const auto refusal = refusal_of(reply);
    if (refusal.code == AMQP_ACCESS_REFUSED) {
        return retryable("ACCESS_REFUSED",
                         fmt::format("RabbitMQ at {} refused user '{}' or its password: correct the sink's url or "
                                     "password_file",
                                     target_.url.server.place(), one_line(target_.url.server.user)));
    }
    if (refusal.code == AMQP_NOT_ALLOWED) {
        return retryable("ACCESS_REFUSED",
                         fmt::format("RabbitMQ at {} refused virtual host '{}' to user '{}' ({}): create it, or "
                                     "correct the sink's url",
                                     target_.url.server.place(), one_line(target_.url.vhost),
                                     one_line(target_.url.server.user), refusal.why));
    }
    return unreachable(target_.url, fmt::format("it did not complete the login ({})", refusal.why));
}

Result<void> RabbitmqConnection::open_channel(Instant deadline) {
    const timeval left = left_until(deadline);
    amqp_set_rpc_timeout(state_.get(), &left);
    amqp_channel_open(state_.get(), kChannel);
    auto reply = amqp_get_rpc_reply(state_.get());
    const auto& exchange = target_.options.exchange;
    if (reply.reply_type == AMQP_RESPONSE_NORMAL && !exchange.empty()) {
        amqp_exchange_declare(state_.get(), kChannel, amqp_bytes_of(exchange), amqp_bytes_of("direct"), 1, 0, 0, 0,
                              amqp_empty_table);
        reply = amqp_get_rpc_reply(state_.get());
        if (const auto refusal = refusal_of(reply); refusal.code == AMQP_NOT_FOUND) {
            return retryable("NO_EXCHANGE",
                             fmt::format("exchange '{}' does not exist in virtual host '{}' of RabbitMQ at {}: create "
                                         "it, or correct the sink's exchange",
                                         one_line(exchange), one_line(target_.url.vhost), target_.url.server.place()));
        }
    }
    if (reply.reply_type == AMQP_RESPONSE_NORMAL) {
        amqp_confirm_select(state_.get(), kChannel);
        reply = amqp_get_rpc_reply(state_.get());
    }
    amqp_maybe_release_buffers(state_.get());
    if (reply.reply_type == AMQP_RESPONSE_NORMAL) return {};
    return unreachable(target_.url, fmt::format("it gave no channel ({})", refusal_of(reply).why));
}

}  // namespace deliverd::sink
