// How a connection begins: URL, socket, TLS, login, channel.
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

#include "base/text.h"
#include "base/try.h"
#include "sink/rabbitmq/connection.h"
#include "sink/secret_file.h"
#include "sink/sink.h"

namespace deliverd::sink {

namespace {

constexpr int kMaxChannels = 1;
constexpr int kMaxFrameBytes = 64 * 1024;
constexpr Duration kLongestHeartbeat = std::chrono::hours(1);
constexpr std::uint16_t kPort = 5672;
constexpr std::uint16_t kTlsPort = 5671;
constexpr std::size_t kMaxVirtualHostBytes = 255;  // AMQP's limit

Failure bad_url(std::string_view why) {
    return bad_argument(
        fmt::format("the sink's url {}: write amqp://USER:PASSWORD@HOST:PORT/VHOST, or "
                    "amqps:// for TLS",
                    why));
}

timeval left_until(Instant deadline) {
    // Above 0, which the library takes for no limit.
    return timeval_of(std::max<Duration>(deadline - SystemClock().now(), std::chrono::microseconds(1)));
}

/// Why a call that waits for the server's answer failed.
struct Refusal {
    int code = 0;  // AMQP's reply code; 0: no answer
    std::string why{};
};

Refusal refusal_of(const amqp_rpc_reply_t& reply) {
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION) {
        const bool late = reply.library_error == AMQP_STATUS_TIMEOUT;
        return {0, late ? "no answer in time" : amqp_error_string2(reply.library_error)};
    }
    if (reply.reply_type != AMQP_RESPONSE_SERVER_EXCEPTION) return {0, "no answer"};
    // A server refuses by closing the connection or the channel, each with a code and a reason.
    const auto said = [](const auto* close) { return Refusal{close->reply_code, text_of(close->reply_text)}; };
    const void* decoded = reply.reply.decoded;
    if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD)
        return said(static_cast<const amqp_connection_close_t*>(decoded));
    if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) return said(static_cast<const amqp_channel_close_t*>(decoded));
    return {0, "an unexpected answer"};
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

Result<AmqpUrl> parse_amqp_url(std::string_view url) {
    auto server = parse_server_url(url);
    if (!server) return bad_url(server.error().message);
    if (server->scheme != "amqp" && server->scheme != "amqps")
        return bad_url("does not start with amqp:// or amqps://");
    AmqpUrl out{.tls = server->scheme == "amqps", .server = std::move(*server)};
    // As RabbitMQ's own clients do.
    if (out.server.user.empty()) out.server.user = out.server.password = "guest";
    if (out.server.port == 0) out.server.port = out.tls ? kTlsPort : kPort;
    // RabbitMQ's URIs have one segment. Whether "a/b" meant the virtual host "a/b" or "a" would be a guess.
    if (out.server.segments.size() > 1) return bad_url("has a / in the virtual host, which is written %2F");
    if (!out.server.segments.empty() && !out.server.segments.front().empty()) out.vhost = out.server.segments.front();
    if (out.vhost.size() > kMaxVirtualHostBytes) return bad_url("has a virtual host that is too long");
    return out;
}

Result<RabbitmqTarget> make_rabbitmq_target(RabbitmqSinkOptions options) {
    TRY_ASSIGN(auto url, parse_amqp_url(options.url));
    if (options.exchange.size() > kMaxShortString) {
        return bad_argument("the sink's exchange has more than 255 bytes, which RabbitMQ does not accept");
    }
    if (options.timeout <= Duration::zero() || options.connect_timeout <= Duration::zero()) {
        return bad_argument("the sink's timeout and connect_timeout must be longer than 0");
    }
    if (options.heartbeat < std::chrono::seconds(1) || options.heartbeat > kLongestHeartbeat) {
        return bad_argument("the sink's heartbeat must be from 1 second to 1 hour");
    }
    TRY(check_ca_file(options.ca_file));
    return RabbitmqTarget{std::move(options), std::move(url)};
}

Result<void> check_rabbitmq_options(const RabbitmqSinkOptions& options) {
    TRY(make_rabbitmq_target(options));
    return {};
}

Failure RabbitmqConnection::unreachable(std::string_view why) const {
    return retryable(std::string(kBrokerUnreachable),
                     fmt::format("cannot reach RabbitMQ at {}: {}; check that it runs, and the sink's url",
                                 target_.url.server.place(), why));
}

Result<std::unique_ptr<RabbitmqConnection>> RabbitmqConnection::open(const RabbitmqTarget& target, Duration limit,
                                                                     SocketCutter& cutter) {
    const Instant deadline = SystemClock().now() + limit;
    std::unique_ptr<RabbitmqConnection> connection(new RabbitmqConnection(target, cutter));
    if (!connection->state_) return connection->unreachable("no memory for a connection");
    TRY(connection->connect(deadline));
    TRY(connection->log_in(deadline));
    TRY(connection->open_channel(deadline));
    return connection;
}

Result<amqp_socket_t*> RabbitmqConnection::make_socket() {
    const auto& options = target_.options;
    if (!target_.url.tls) {
        if (auto* plain = amqp_tcp_socket_new(state_.get())) return plain;
        return unreachable("no memory for a socket");
    }
    auto* socket = amqp_ssl_socket_new(state_.get());
    if (socket == nullptr) return unreachable("TLS could not be set up");
    auto* context = static_cast<SSL_CTX*>(amqp_ssl_socket_get_context(socket));
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    amqp_ssl_socket_set_verify_hostname(socket, 0);  // expect_host() does that
    amqp_ssl_socket_set_verify_peer(socket, options.verify_tls ? 1 : 0);
    if (!options.verify_tls) return socket;
    // The only way from OpenSSL's callback back to this object.
    SSL_CTX_set_app_data(context, &certificate_problem_);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, note_certificate_problem);
    const bool has_authorities = options.ca_file.empty()
                                     ? SSL_CTX_set_default_verify_paths(context) == 1
                                     : amqp_ssl_socket_set_cacert(socket, options.ca_file.c_str()) == AMQP_STATUS_OK;
    if (!has_authorities) {
        return unreachable(fmt::format("the certificate authorities in {} cannot be read",
                                       options.ca_file.empty() ? "the system's store" : options.ca_file));
    }
    if (!expect_host(context, target_.url.server.host)) return unreachable("its name cannot be verified");
    return socket;
}

Result<void> RabbitmqConnection::connect(Instant deadline) {
    TRY_ASSIGN(const auto socket, make_socket());
    timeval left = left_until(deadline);
    const int status =
        amqp_socket_open_noblock(socket, target_.url.server.host.c_str(), target_.url.server.port, &left);
    if (status == AMQP_STATUS_OK) {
        // Not earlier: while it resolves and connects there is no socket yet that a stop could cut.
        fd_ = amqp_get_sockfd(state_.get());
        cutter_.set(fd_);
        return {};
    }
    if (!certificate_problem_.empty()) {
        return unreachable(fmt::format("its TLS certificate is not accepted ({})", certificate_problem_));
    }
    if (status == AMQP_STATUS_SOCKET_ERROR)
        return unreachable("the connection was refused, or there is no route to it");
    return unreachable(status == AMQP_STATUS_TIMEOUT ? "no connection in time" : amqp_error_string2(status));
}

Result<void> RabbitmqConnection::log_in(Instant deadline) {
    std::string password = target_.url.server.password;
    if (!target_.options.password_file.empty()) {
        // At each login, so that a password can be replaced without a restart.
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
    // They let the server say why it refuses a login, and when it blocks publishers.
    std::array capabilities{yes("authentication_failure_close"), yes("connection.blocked"), yes("publisher_confirms"),
                            yes("basic.nack")};
    std::array entries{amqp_table_entry_t{}, text_entry("connection_name", "deliverd")};
    entries[0].key = amqp_cstring_bytes("capabilities");
    entries[0].value.kind = AMQP_FIELD_KIND_TABLE;
    entries[0].value.value.table = {static_cast<int>(capabilities.size()), capabilities.data()};
    const amqp_table_t properties{static_cast<int>(entries.size()), entries.data()};
    const timeval left = left_until(deadline);
    // The library has one limit for the beginning of the handshake and one for each call.
    amqp_set_handshake_timeout(state_.get(), &left);
    amqp_set_rpc_timeout(state_.get(), &left);
    const auto heartbeat = std::chrono::duration_cast<std::chrono::seconds>(target_.options.heartbeat).count();
    const auto reply = amqp_login_with_properties(state_.get(), target_.url.vhost.c_str(), kMaxChannels, kMaxFrameBytes,
                                                  static_cast<int>(heartbeat), &properties, AMQP_SASL_METHOD_PLAIN,
                                                  target_.url.server.user.c_str(), password.c_str());
    if (reply.reply_type == AMQP_RESPONSE_NORMAL) return {};
    const auto refusal = refusal_of(reply);
    // Retryable: the messages wait until somebody corrects it, on either side.
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
    return unreachable(fmt::format("it did not complete the login ({})", refusal.why));
}

Result<void> RabbitmqConnection::open_channel(Instant deadline) {
    const auto& exchange = target_.options.exchange;
    const auto answered = [&]() -> Result<void> {
        const auto reply = amqp_get_rpc_reply(state_.get());
        if (reply.reply_type == AMQP_RESPONSE_NORMAL) return {};
        const auto refusal = refusal_of(reply);
        if (refusal.code != AMQP_NOT_FOUND) return unreachable(fmt::format("it opened no channel ({})", refusal.why));
        return retryable("NO_EXCHANGE",
                         fmt::format("exchange '{}' does not exist in virtual host '{}' of RabbitMQ at {}: create "
                                     "it, or correct the sink's exchange",
                                     one_line(exchange), one_line(target_.url.vhost), target_.url.server.place()));
    };
    const timeval left = left_until(deadline);
    amqp_set_rpc_timeout(state_.get(), &left);
    amqp_channel_open(state_.get(), kChannel);
    TRY(answered());
    if (!exchange.empty()) {
        // Passive: asks whether it exists and creates nothing. Otherwise the first message would close the channel.
        amqp_exchange_declare(state_.get(), kChannel, amqp_bytes_of(exchange), amqp_bytes_of("direct"), 1, 0, 0, 0,
                              amqp_empty_table);
        TRY(answered());
    }
    amqp_confirm_select(state_.get(), kChannel);
    TRY(answered());
    amqp_maybe_release_buffers(state_.get());
    return {};
}

}  // namespace deliverd::sink
