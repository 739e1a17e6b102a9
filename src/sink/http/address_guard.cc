#include "sink/http/address_guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace deliverd::sink {

namespace {

/// Of the first 32 bits of an address.
struct Range {
    std::uint32_t first;
    unsigned bits;
};

// IANA's special-purpose registry: addresses that are not globally reachable, and multicast.
constexpr std::array<Range, 16> kNotPublic4 = {{
    {0x00000000U, 8},   // 0.0.0.0/8: this host
    {0x0A000000U, 8},   // 10.0.0.0/8
    {0x64400000U, 10},  // 100.64.0.0/10: shared, carriers'
    {0x7F000000U, 8},   // 127.0.0.0/8
    {0xA83F8110U, 32},  // 168.63.129.16: a cloud's services for its own machines, though the address is public
    {0xA9FE0000U, 16},  // 169.254.0.0/16: link-local, clouds' metadata
    {0xAC100000U, 12},  // 172.16.0.0/12
    {0xC0000000U, 24},  // 192.0.0.0/24
    {0xC0000200U, 24},  // 192.0.2.0/24: documentation
    {0xC0586300U, 24},  // 192.88.99.0/24: 6to4 relays
    {0xC0A80000U, 16},  // 192.168.0.0/16
    {0xC6120000U, 15},  // 198.18.0.0/15: benchmarks
    {0xC6336400U, 24},  // 198.51.100.0/24
    {0xCB007100U, 24},  // 203.0.113.0/24
    {0xE0000000U, 4},   // 224.0.0.0/4: multicast
    {0xF0000000U, 4},   // 240.0.0.0/4: reserved, broadcast
}};

// Of 2000::/3, by the first 32 bits.
constexpr std::array<Range, 5> kNotPublic6 = {{
    {0x20010000U, 32},  // 2001::/32: Teredo
    {0x20010010U, 28},  // 2001:10::/28: ORCHID
    {0x20010020U, 28},  // 2001:20::/28: ORCHIDv2
    {0x20010DB8U, 32},  // 2001:db8::/32: documentation
    {0x3FFF0000U, 20},  // 3fff::/20: documentation
}};

bool is_private_v4(std::uint32_t address) {
    for (const Range& range : kNotPublic4) {
        if (((address ^ range.first) >> (32U - range.bits)) == 0) return true;
    }
    return false;
}

using Bytes6 = std::array<std::uint8_t, 16>;

std::uint32_t v4_at(const Bytes6& bytes, std::size_t at) {
    return (std::uint32_t{bytes[at]} << 24U) | (std::uint32_t{bytes[at + 1]} << 16U) |
           (std::uint32_t{bytes[at + 2]} << 8U) | bytes[at + 3];
}

bool starts_with(const Bytes6& bytes, const std::uint8_t* prefix, std::size_t length) {
    return std::memcmp(bytes.data(), prefix, length) == 0;
}

bool is_private_v6(const Bytes6& bytes) {
    constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    constexpr std::uint8_t kNat64[12] = {0x00, 0x64, 0xFF, 0x9B, 0, 0, 0, 0, 0, 0, 0, 0};
    if (starts_with(bytes, kMapped, sizeof kMapped) || starts_with(bytes, kNat64, sizeof kNat64)) {
        return is_private_v4(v4_at(bytes, 12));
    }
    if (bytes[0] == 0x20 && bytes[1] == 0x02) return is_private_v4(v4_at(bytes, 2));  // 6to4
    const std::uint32_t first = v4_at(bytes, 0);
    for (const Range& range : kNotPublic6) {
        if (((first ^ range.first) >> (32U - range.bits)) == 0) return true;
    }
    constexpr std::uint8_t kBenchmarks[6] = {0x20, 0x01, 0x00, 0x02, 0x00, 0x00};  // 2001:2::/48
    if (starts_with(bytes, kBenchmarks, sizeof kBenchmarks)) return true;
    // Only 2000::/3 is given out; ::, ::1, fc00::/7, fe80::/10, ff00::/8 and the rest lie outside.
    return (bytes[0] & 0xE0U) != 0x20U;
}

}  // namespace

bool is_private_address(const sockaddr& address) {
    if (address.sa_family == AF_INET) {
        sockaddr_in v4 = {};
        std::memcpy(&v4, &address, sizeof v4);
        return is_private_v4(ntohl(v4.sin_addr.s_addr));
    }
    if (address.sa_family != AF_INET6) return true;
    sockaddr_in6 v6 = {};
    std::memcpy(&v6, &address, sizeof v6);
    Bytes6 bytes = {};
    std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
    return is_private_v6(bytes);
}

std::string address_text(const sockaddr& address) {
    std::array<char, INET6_ADDRSTRLEN> text = {};
    const char* shown = nullptr;
    if (address.sa_family == AF_INET) {
        sockaddr_in v4 = {};
        std::memcpy(&v4, &address, sizeof v4);
        shown = inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    } else if (address.sa_family == AF_INET6) {
        sockaddr_in6 v6 = {};
        std::memcpy(&v6, &address, sizeof v6);
        shown = inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    }
    return shown == nullptr ? "an address of another kind" : shown;
}

}  // namespace deliverd::sink
