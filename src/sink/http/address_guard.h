// The addresses that an endpoint from data may not reach. Pure code.
#pragma once

#include <sys/socket.h>

#include <string>

namespace deliverd::sink {

/// Whether the address is not one of the public internet: loopback, private, link-local, shared, multicast, reserved,
/// an IPv6 form of such an IPv4 address, or neither IPv4 nor IPv6.
[[nodiscard]] bool is_private_address(const sockaddr& address);

/// "10.0.0.7", "fe80::1"; for people.
[[nodiscard]] std::string address_text(const sockaddr& address);

}  // namespace deliverd::sink
