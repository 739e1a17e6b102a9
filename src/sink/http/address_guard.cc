#include "sink/http/address_guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/assert.h"

namespace deliverd::sink {

namespace {

/// All addresses are compared as IPv6 ones: an IPv4 address has several IPv6 forms that reach it, and a check of each
/// by itself would leave one out.
struct Range {
    const char* first;
    std::size_t bits;
};

constexpr Range kV4{"::ffff:0.0.0.0", 96};
constexpr Range kV4Nat64{"64:ff9b::", 96};
constexpr Range kV4In6to4{"2002::", 16};
// All that is given out; ::, ::1, fc00::/7, fe80::/10, ff00::/8 and the rest lie outside.
constexpr Range kV6Public{"2000::", 3};

// IANA's special-purpose registries: addresses that are not globally reachable, and multicast.
constexpr std::array<Range, 22> kNotPublic{{
    {"::ffff:0.0.0.0", 96 + 8},         // this host
    {"::ffff:10.0.0.0", 96 + 8},        // private
    {"::ffff:100.64.0.0", 96 + 10},     // shared, carriers'
    {"::ffff:127.0.0.0", 96 + 8},       // loopback
    {"::ffff:168.63.129.16", 96 + 32},  // a cloud's services for its own machines, though the address is public
    {"::ffff:169.254.0.0", 96 + 16},    // link-local, clouds' metadata
    {"::ffff:172.16.0.0", 96 + 12},     // private
    {"::ffff:192.0.0.0", 96 + 24},      // protocol assignments
    {"::ffff:192.0.2.0", 96 + 24},      // documentation
    {"::ffff:192.88.99.0", 96 + 24},    // 6to4 relays
    {"::ffff:192.168.0.0", 96 + 16},    // private
    {"::ffff:198.18.0.0", 96 + 15},     // benchmarks
    {"::ffff:198.51.100.0", 96 + 24},   // documentation
    {"::ffff:203.0.113.0", 96 + 24},    // documentation
    {"::ffff:224.0.0.0", 96 + 4},       // multicast
    {"::ffff:240.0.0.0", 96 + 4},       // reserved, broadcast
    {"2001::", 32},                     // Teredo
    {"2001:2::", 48},                   // benchmarks
    {"2001:10::", 28},                  // ORCHID
    {"2001:20::", 28},                  // ORCHIDv2
    {"2001:db8::", 32},                 // documentation
    {"3fff::", 20},                     // documentation
}};

bool is_in(const Range& range, const in6_addr& address) {
    in6_addr first{};
    ASSERT(::inet_pton(AF_INET6, range.first, &first) == 1);
    const std::size_t bytes = range.bits / 8;
    const std::size_t rest = range.bits % 8;
    if (std::memcmp(&first.s6_addr, &address.s6_addr, bytes) != 0) return false;
    return rest == 0 || ((first.s6_addr[bytes] ^ address.s6_addr[bytes]) >> (8 - rest)) == 0;
}

in6_addr v4_of(const void* four_bytes) {
    in6_addr address{};
    address.s6_addr[10] = address.s6_addr[11] = 0xFF;
    std::memcpy(&address.s6_addr[12], four_bytes, 4);
    return address;
}

/// Copies what sockaddr stands for: reading it through another type would be undefined.
template <typename Address>
Address copy_of(const sockaddr& address) {
    Address copy{};
    std::memcpy(&copy, &address, sizeof copy);
    return copy;
}

}  // namespace

bool is_private_address(const sockaddr& address) {
    in6_addr plain{};
    if (address.sa_family == AF_INET) {
        const auto v4 = copy_of<sockaddr_in>(address);
        plain = v4_of(&v4.sin_addr);
    } else if (address.sa_family == AF_INET6) {
        plain = copy_of<sockaddr_in6>(address).sin6_addr;
        if (is_in(kV4Nat64, plain)) plain = v4_of(&plain.s6_addr[12]);
        if (is_in(kV4In6to4, plain)) plain = v4_of(&plain.s6_addr[2]);
    } else {
        return true;
    }
    const auto has_it = [&](const Range& range) { return is_in(range, plain); };
    return !(has_it(kV4) || has_it(kV6Public)) || std::ranges::any_of(kNotPublic, has_it);
}

std::string address_text(const sockaddr& address) {
    std::array<char, INET6_ADDRSTRLEN> text = {};
    const char* shown = nullptr;
    if (address.sa_family == AF_INET) {
        const auto v4 = copy_of<sockaddr_in>(address);
        shown = ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    } else if (address.sa_family == AF_INET6) {
        const auto v6 = copy_of<sockaddr_in6>(address);
        shown = ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    }
    return shown == nullptr ? "an address of another kind" : shown;
}

}  // namespace deliverd::sink
