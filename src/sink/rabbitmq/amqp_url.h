// The parts of amqp://user:password@host:port/vhost. Pure code.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "deliverd/result.h"

namespace deliverd::sink {

struct AmqpUrl {
    bool tls = false;
    std::string host{};
    std::uint16_t port = 0;  // as written, else 5672, or 5671 with TLS
    std::string user{};      // guest where there is none, and so the password
    std::string password{};
    std::string vhost{};  // "/" where there is none

    /// For people: host and port, nothing secret.
    [[nodiscard]] std::string place() const;
};

/// User, password and virtual host may be percent-encoded; the virtual host "/" is written %2F or left out. Failure
/// (permanent, `bad_argument`): says what is wrong and never repeats the URL, which may hold a password.
[[nodiscard]] Result<AmqpUrl> parse_amqp_url(std::string_view url);

}  // namespace deliverd::sink
