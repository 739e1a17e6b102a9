#include "sink/http/token_hosts.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "sink/http/target.h"

namespace deliverd::sink {

namespace {

std::string without_brackets(std::string host) {
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') return host.substr(1, host.size() - 2);
    return host;
}

std::string comparable(std::string_view host) {
    return without_brackets(ascii_lower(host));
}

/// By its name or address alone: somebody else may control where another name leads.
bool is_loopback_host(const std::string& host) {
    constexpr std::uint32_t kFirstByte = 24;
    constexpr std::uint32_t kLoopback = 127;
    in_addr v4{};
    in6_addr v6{};
    if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> kFirstByte == kLoopback;
    if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
    return host == "localhost";
}

}  // namespace

Result<std::string> read_token_host(std::string_view text) {
    std::string host = comparable(text);
    in6_addr v6{};
    if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return host;
    const auto parts = split_http_url("https://" + host + "/");
    if (parts && comparable(parts->host) == host) return host;
    return bad_argument(
        fmt::format("'{}' is not a host: write a name or an address, such as example.com, "
                    "without scheme, port and path",
                    shorten(one_line(text), 64)));
}

bool is_guarded_url(const std::string& url) {
    const auto parts = split_http_url(url);
    return parts && (parts->scheme == "https" || is_loopback_host(comparable(parts->host)));
}

bool may_have_token(const std::string& url, std::span<const std::string> hosts) {
    const auto parts = split_http_url(url);
    return parts && std::ranges::find(hosts, comparable(parts->host)) != hosts.end() && is_guarded_url(url);
}

}  // namespace deliverd::sink
