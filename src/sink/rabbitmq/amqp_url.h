// The parts of amqp://user:password@host:port/vhost. Pure code.
#pragma once

#include <string>
#include <string_view>

#include "deliverd/result.h"
#include "sink/server_url.h"

namespace deliverd::sink {

struct AmqpUrl {
    bool tls = false;
    ServerUrl server{};       // user and password are guest where none is written, the port 5672 or 5671 (TLS)
    std::string vhost = "/";  // where none is written
};

/// As parse_server_url(); the virtual host "/" is written %2F or left out.
[[nodiscard]] Result<AmqpUrl> parse_amqp_url(std::string_view url);

}  // namespace deliverd::sink
