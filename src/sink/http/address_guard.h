// Which addresses an endpoint that comes from data may not reach. Pure.
#pragma once

#include <sys/socket.h>

#include <string>

namespace deliverd::sink {

/// Whether the address is anything but one of the public internet: loopback, private, link-local, shared, multicast,
/// reserved, or an IPv6 form that stands for such an IPv4 address. What is neither IPv4 nor IPv6 is not public either.
[[nodiscard]] bool is_private_address(const sockaddr& address);

/// "10.0.0.7", "fe80::1"; for people.
[[nodiscard]] std::string address_text(const sockaddr& address);

}  // namespace deliverd::sink
