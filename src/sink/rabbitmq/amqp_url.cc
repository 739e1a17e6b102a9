#include "sink/rabbitmq/amqp_url.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace deliverd::sink {

namespace {

constexpr std::uint16_t kPort = 5672;
constexpr std::uint16_t kTlsPort = 5671;
constexpr std::size_t kMaxVirtualHostBytes = 255;  // what AMQP can say of a virtual host

Failure bad(std::string_view why) {
    return permanent("bad_argument", fmt::format("the sink's url {}: write amqp://USER:PASSWORD@HOST:PORT/VHOST, or "
                                                 "amqps:// for TLS",
                                                 why));
}

std::optional<unsigned> hex(char c) {
    if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
    if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
    if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
    return std::nullopt;
}

/// None where it is broken, or holds a zero byte, which the client library's strings end at.
std::optional<std::string> decoded(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        char c = text[i];
        if (c == '%') {
            if (i + 2 >= text.size()) return std::nullopt;
            const auto high = hex(text[i + 1]);
            const auto low = hex(text[i + 2]);
            if (!high || !low) return std::nullopt;
            c = static_cast<char>(*high * 16 + *low);
            i += 2;
        }
        if (c == '\0') return std::nullopt;
        out.push_back(c);
    }
    return out;
}

Result<void> read_user(std::string_view text, AmqpUrl& out) {
    const auto colon = text.find(':');
    const auto user = decoded(text.substr(0, colon));
    const auto password = colon == std::string_view::npos ? std::string() : decoded(text.substr(colon + 1));
    if (!user || !password || user->empty()) return bad("has a user or password that is empty or wrongly encoded");
    out.user = *user;
    out.password = *password;
    return {};
}

Result<void> read_host(std::string_view text, AmqpUrl& out) {
    std::size_t end = text.rfind(':');
    if (text.starts_with('[')) {  // IPv6
        const auto close = text.find(']');
        if (close == std::string_view::npos) return bad("has a [ without ]");
        out.host = text.substr(1, close - 1);
        end = close + 1;
        if (end < text.size() && text[end] != ':') return bad("has something behind ]");
    } else {
        out.host = text.substr(0, end);
    }
    if (out.host.empty() || out.host.find_first_of(" ,") != std::string::npos) return bad("needs one host name");
    if (end >= text.size()) return {};
    const auto digits = text.substr(end + 1);
    const auto [stopped, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), out.port);
    if (problem != std::errc() || stopped != digits.data() + digits.size() || out.port == 0) {
        return bad("has a port that is no number from 1 to 65535");
    }
    return {};
}

Result<void> read_vhost(std::string_view text, AmqpUrl& out) {
    if (text.empty()) return {};
    if (text.find_first_of("?#") != std::string_view::npos) return bad("has parameters (?…), which are not read");
    if (text.find('/') != std::string_view::npos) return bad("has a / in the virtual host, which is written %2F");
    const auto vhost = decoded(text);
    if (!vhost || vhost->size() > kMaxVirtualHostBytes)
        return bad("has a virtual host that is too long or wrongly encoded");
    out.vhost = *vhost;
    return {};
}

}  // namespace

std::string AmqpUrl::place() const {
    return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

Result<AmqpUrl> parse_amqp_url(std::string_view url) {
    AmqpUrl out{.user = "guest", .password = "guest", .vhost = "/"};
    if (url.starts_with("amqps://")) {
        out.tls = true;
    } else if (!url.starts_with("amqp://")) {
        return bad("does not start with amqp:// or amqps://");
    }
    out.port = out.tls ? kTlsPort : kPort;
    url.remove_prefix(url.find("//") + 2);
    const auto slash = url.find('/');
    auto authority = url.substr(0, slash);
    if (const auto at = authority.rfind('@'); at != std::string_view::npos) {
        if (auto read = read_user(authority.substr(0, at), out); !read) return Failure(read.error());
        authority.remove_prefix(at + 1);
    }
    if (auto read = read_host(authority, out); !read) return Failure(read.error());
    if (slash != std::string_view::npos) {
        if (auto read = read_vhost(url.substr(slash + 1), out); !read) return Failure(read.error());
    }
    return out;
}

}  // namespace deliverd::sink
