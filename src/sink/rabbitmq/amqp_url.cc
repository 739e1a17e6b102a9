#include "sink/rabbitmq/amqp_url.h"

#include <fmt/format.h>

#include <utility>

namespace deliverd::sink {

namespace {

constexpr std::uint16_t kPort = 5672;
constexpr std::uint16_t kTlsPort = 5671;
constexpr std::size_t kMaxVirtualHostBytes = 255;  // AMQP's limit

Failure bad(std::string_view why) {
    return bad_argument(
        fmt::format("the sink's url {}: write amqp://USER:PASSWORD@HOST:PORT/VHOST, or "
                    "amqps:// for TLS",
                    why));
}

}  // namespace

Result<AmqpUrl> parse_amqp_url(std::string_view url) {
    auto server = parse_server_url(url);
    if (!server) return bad(server.error().message);
    if (server->scheme != "amqp" && server->scheme != "amqps") return bad("does not start with amqp:// or amqps://");
    AmqpUrl out{.tls = server->scheme == "amqps", .server = std::move(*server)};
    // As RabbitMQ's own clients do.
    if (out.server.user.empty()) out.server.user = out.server.password = "guest";
    if (out.server.port == 0) out.server.port = out.tls ? kTlsPort : kPort;
    // RabbitMQ's URIs have one segment. Whether "a/b" meant the virtual host "a/b" or "a" would be a guess.
    if (out.server.segments.size() > 1) return bad("has a / in the virtual host, which is written %2F");
    if (!out.server.segments.empty() && !out.server.segments.front().empty()) out.vhost = out.server.segments.front();
    if (out.vhost.size() > kMaxVirtualHostBytes) return bad("has a virtual host that is too long");
    return out;
}

}  // namespace deliverd::sink
