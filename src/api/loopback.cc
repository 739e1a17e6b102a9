#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdint>
#include <string>

#include "api/doors.h"
#include "base/text.h"

namespace deliverd::api {

namespace {

constexpr std::uint32_t kLoopbackNet = 127U << 24U;
constexpr std::uint32_t kLoopbackMask = 255U << 24U;

bool in_loopback_net(std::uint32_t address) {
    return (address & kLoopbackMask) == kLoopbackNet;
}

}  // namespace

bool is_loopback(std::string_view host) {
    if (equal_ignoring_case(host, "localhost")) return true;
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    const std::string text(host);
    in_addr v4{};
    if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return in_loopback_net(ntohl(v4.s_addr));
    in6_addr v6{};
    if (inet_pton(AF_INET6, text.c_str(), &v6) != 1) return false;
    if (IN6_IS_ADDR_LOOPBACK(&v6)) return true;
    if (!IN6_IS_ADDR_V4MAPPED(&v6)) return false;
    const auto& bytes = v6.s6_addr;
    return bytes[12] == 127;
}

}  // namespace deliverd::api
