#include "sink/http/http_url.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>

#include "base/handle.h"
#include "base/text.h"
#include "base/try.h"
#include "sink/http/http_options.h"

namespace deliverd::sink {

namespace {

std::string comparable(std::string_view host) {
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    return ascii_lower(host);
}

/// By its name or address alone: somebody else may control where another name leads.
bool is_loopback_host(const std::string& host) {
    constexpr std::uint32_t kFirstByte = 24;  // all of 127.0.0.0/8 is this machine
    constexpr std::uint32_t kLoopback = 127;
    in_addr v4{};
    in6_addr v6{};
    if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> kFirstByte == kLoopback;
    if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
    return host == "localhost";
}

bool is_guarded(const HttpUrl& url) {
    return url.scheme == "https" || is_loopback_host(comparable(url.host));
}

}  // namespace

Result<HttpUrl> parse_http_url(const std::string& url) {
    // libcurl knows many other schemes, file:// among them.
    if (!url.starts_with("http://") && !url.starts_with("https://")) {
        return bad_argument("must start with http:// or https://");
    }
    const Handle<CURLU, curl_url_cleanup> parsed(curl_url());
    const auto part = [&](CURLUPart which, unsigned flags = 0) {
        char* text = nullptr;
        if (curl_url_get(parsed.get(), which, &text, flags) != CURLUE_OK) return std::string();
        const Handle<char, curl_free> owner(text);
        return std::string(text);
    };
    const bool is_read = curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) == CURLUE_OK;
    if (!is_read || part(CURLUPART_HOST).empty()) {
        return bad_argument(
            "cannot be used: write http://HOST/PATH or https://HOST:PORT/PATH, with special characters "
            "percent-encoded");
    }
    // User and password as libcurl sends them, which is what a receiver may repeat.
    return HttpUrl{part(CURLUPART_SCHEME), part(CURLUPART_HOST), part(CURLUPART_PORT, CURLU_DEFAULT_PORT),
                   part(CURLUPART_USER, CURLU_URLDECODE), part(CURLUPART_PASSWORD, CURLU_URLDECODE)};
}

Result<void> check_http_url(const std::string& url) {
    TRY(parse_http_url(url));
    return {};
}

Result<std::string> read_token_host(std::string_view text) {
    std::string host = comparable(text);
    in6_addr v6{};
    if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return host;
    // libcurl decides: what it reads as more than a host (a user, a port, a path) comes out changed.
    const auto url = parse_http_url("https://" + host + "/");
    if (url && comparable(url->host) == host) return host;
    return bad_argument(
        fmt::format("'{}' is not a host: write a name or an address, such as example.com, "
                    "without scheme, port and path",
                    shorten(one_line(text), 64)));
}

bool is_guarded_url(const std::string& url) {
    const auto parsed = parse_http_url(url);
    return parsed && is_guarded(*parsed);
}

bool may_have_token(const std::string& url, std::span<const std::string> hosts) {
    const auto parsed = parse_http_url(url);
    return parsed && std::ranges::find(hosts, comparable(parsed->host)) != hosts.end() && is_guarded(*parsed);
}

}  // namespace deliverd::sink
