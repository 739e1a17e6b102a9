#include "api/doors.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <optional>
#include <string>

#include "base/text.h"

namespace deliverd::api {

namespace {

constexpr std::size_t kMaxPortDigits = 5;
constexpr unsigned kLoopbackNet = 127;  // the first byte of an IPv4 address

struct Authority {
    std::string_view host;  // with the brackets of an IPv6 address
    std::string_view port;  // empty: none is named
};

bool is_host_character(char c) {
    return is_alphanumeric(c) || c == '.' || c == '-' || c == '_';
}

bool is_port(std::string_view text) {
    return !text.empty() && text.size() <= kMaxPortDigits && std::ranges::all_of(text, is_digit);
}

/// "host", "host:port", "[address]", "[address]:port"; none for anything else.
std::optional<Authority> parse_authority(std::string_view text) {
    const bool bracketed = text.starts_with('[');
    const std::size_t host_end = bracketed ? text.find(']') + 1 : std::min(text.find(':'), text.size());
    if (host_end == 0) return std::nullopt;  // no host, or no end of its bracket
    const Authority authority{text.substr(0, host_end), text.substr(std::min(host_end + 1, text.size()))};
    if (host_end < text.size() && (text[host_end] != ':' || !is_port(authority.port))) return std::nullopt;
    if (!bracketed && !std::ranges::all_of(authority.host, is_host_character)) return std::nullopt;
    return authority;
}

struct Origin {
    Authority authority;
    bool is_https;
};

std::optional<Origin> parse_origin(std::string_view text) {
    const std::size_t end = text.find("://");
    if (end == std::string_view::npos) return std::nullopt;
    const bool is_https = equal_ignoring_case(text.substr(0, end), "https");
    if (!is_https && !equal_ignoring_case(text.substr(0, end), "http")) return std::nullopt;
    const auto authority = parse_authority(text.substr(end + 3));
    if (!authority) return std::nullopt;
    return Origin{*authority, is_https};
}

/// Whether `named` (a Host header or an allowed host) is where pages of `origin` come from.
bool is_home_of(const Origin& origin, std::string_view named) {
    const auto home = parse_authority(named);
    if (!home || !equal_ignoring_case(home->host, origin.authority.host)) return false;
    const std::string_view default_port = origin.is_https ? "443" : "80";
    // A browser leaves out the default port of its page's scheme.
    const auto port_of = [&](const Authority& at) { return at.port.empty() ? default_port : at.port; };
    return port_of(*home) == port_of(origin.authority);
}

std::string_view trimmed(std::string_view text) {
    while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
    while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
    return text;
}

bool is_json(std::string_view content_type) {
    constexpr std::string_view kApplication = "application/";
    constexpr std::string_view kJsonSuffix = "+json";
    const std::string_view type = trimmed(content_type.substr(0, content_type.find(';')));
    if (equal_ignoring_case(type, "application/json")) return true;
    return type.size() > kApplication.size() + kJsonSuffix.size() &&
           equal_ignoring_case(type.substr(0, kApplication.size()), kApplication) &&
           equal_ignoring_case(type.substr(type.size() - kJsonSuffix.size()), kJsonSuffix);
}

}  // namespace

bool is_own_host(std::string_view host, const DoorOptions& doors) {
    const auto asked = parse_authority(host);
    if (!asked) return false;
    if (is_loopback(asked->host)) return true;
    return std::ranges::any_of(doors.allowed_hosts, [&](const std::string& name) {
        const auto allowed = parse_authority(name);
        return allowed && equal_ignoring_case(allowed->host, asked->host) &&
               (allowed->port.empty() || allowed->port == asked->port);
    });
}

bool is_cross_origin(const http::Request& request, const DoorOptions& doors) {
    if (equal_ignoring_case(request.header("Sec-Fetch-Site"), "cross-site")) return true;
    // Each Origin, not only the first: nobody knows which of several is the browser's.
    return std::ranges::any_of(request.headers, [&](const auto& header) {
        if (!equal_ignoring_case(header.first, "Origin")) return false;
        const auto origin = parse_origin(header.second);
        if (!origin) return true;                                // "null" is the origin of pages that hide theirs
        if (doors.https_only && !origin->is_https) return true;  // anybody on the way could have made that page
        const auto is_home = [&](std::string_view named) { return is_home_of(*origin, named); };
        return !is_home(request.header("Host")) && std::ranges::none_of(doors.allowed_hosts, is_home);
    });
}

bool announces_body(const http::Request& request) {
    const std::string_view length = request.header("Content-Length");
    // Without a number: one too large for any type is a body too.
    const bool has_length = std::ranges::any_of(length, [](char c) { return c != '0'; });
    return has_length || !request.header("Transfer-Encoding").empty();
}

bool has_other_body(const http::Request& request) {
    return announces_body(request) && !is_json(request.header("Content-Type"));
}

bool is_host_name(std::string_view text) {
    return parse_authority(text).has_value();
}

bool is_loopback(std::string_view host) {
    if (equal_ignoring_case(host, "localhost")) return true;
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    // inet_pton wants a terminated string.
    const std::string text(host);
    in_addr v4{};
    if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24U == kLoopbackNet;
    in6_addr v6{};
    if (inet_pton(AF_INET6, text.c_str(), &v6) != 1) return false;
    if (IN6_IS_ADDR_LOOPBACK(&v6)) return true;
    // ::ffff:127.0.0.1 reaches the IPv4 loopback.
    return IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == kLoopbackNet;
}

}  // namespace deliverd::api
