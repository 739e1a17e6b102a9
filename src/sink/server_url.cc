#include "sink/server_url.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/url/src.hpp>  // the library itself, for this one call

namespace deliverd::sink {

namespace {

constexpr std::size_t kMaxPortDigits = 5;

/// The client libraries' strings end at a zero byte.
bool holds_zero(const std::string& text) {
    return text.find('\0') != std::string::npos;
}

}  // namespace

std::string ServerUrl::place() const {
    const auto name = host.find(':') == std::string::npos ? host : fmt::format("[{}]", host);
    return port == 0 ? name : fmt::format("{}:{}", name, port);
}

std::vector<std::string_view> comma_separated(std::string_view list) {
    std::vector<std::string_view> out;
    for (std::size_t from = 0; from <= list.size(); from += out.back().size() + 1) {
        out.push_back(list.substr(from, list.find(',', from) - from));
    }
    return out;
}

Result<ServerUrl> parse_server_url(std::string_view url) {
    const auto parsed = boost::urls::parse_uri(boost::urls::string_view(url.data(), url.size()));
    if (!parsed || !parsed->has_authority()) {
        return bad_argument("cannot be read: special characters in user and password must be percent-encoded");
    }
    const boost::urls::url_view& parts = *parsed;
    if (parts.has_query() || parts.has_fragment()) return bad_argument("has parameters (? or #), which are not read");
    ServerUrl out;
    out.scheme = parts.scheme();
    out.user = parts.user();
    out.password = parts.password();
    out.host = parts.host_address();
    out.path = std::string_view(parts.encoded_path());
    for (const auto& segment : parts.segments()) out.segments.emplace_back(std::string_view(segment));
    // The library takes what it cannot read behind the host for a path.
    if (out.host.empty() || out.host.find_first_of(" ,") != std::string::npos ||
        (!out.path.empty() && out.path.front() != '/')) {
        return bad_argument("needs one host name, and at most a port after it");
    }
    // A password alone would be sent with a user that nobody wrote.
    if (parts.has_userinfo() && (out.user.empty() || holds_zero(out.user) || holds_zero(out.password))) {
        return bad_argument("has a user or password that is empty or wrongly encoded");
    }
    if (std::ranges::any_of(out.segments, holds_zero)) return bad_argument("has a path that is wrongly encoded");
    if (parts.has_port()) {
        // The library takes any number, and its port_number() is 0 for one that is too large.
        out.port = parts.port().size() <= kMaxPortDigits && std::stoul("0" + std::string(parts.port())) <= 65535
                       ? parts.port_number()
                       : std::uint16_t{0};
        if (out.port == 0) return bad_argument("has a port that is not a number from 1 to 65535");
    }
    return out;
}

}  // namespace deliverd::sink
