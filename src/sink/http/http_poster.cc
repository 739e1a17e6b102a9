#include "sink/http/http_poster.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/text.h"
#include "base/try.h"
#include "message/retry_after.h"
#include "sink/http/curl_request.h"
#include "sink/http/http_url.h"
#include "sink/http/request_headers.h"

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

/// Copies `address` as the type that it really has: reading it through another type would be undefined.
template <typename Address>
Address copy_of(const sockaddr& address) {
    Address copy{};
    std::memcpy(&copy, &address, sizeof copy);
    return copy;
}

/// "10.0.0.7", "fe80::1"; for people.
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

class CurlPoster final : public HttpPoster {
public:
    explicit CurlPoster(HttpPosterOptions options)
        : options_(std::move(options)),
          post_({.connect_timeout = options_.connect_timeout, .timeout = options_.timeout}) {
        CURL* handle = post_.easy();
        curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &CurlPoster::on_body);
        curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, &CurlPoster::on_socket);
        curl_easy_setopt(handle, CURLOPT_OPENSOCKETDATA, static_cast<void*>(this));
        post_.end_when(stopped_);
    }

    PostAnswer post(const std::string& url, const std::string& body, const std::string& key) override {
        const auto parts = parse_http_url(url);
        if (!parts) return {0, "BAD_ENDPOINT", "the endpoint " + parts.error().message};
        opened_ = false;
        refused_.clear();
        withheld_.clear();
        post_.begin(body);
        ASSERT(post_.add_header("Content-Type", "application/json"));
        // Without it rather than not at all: the key is data, and a receiver may do without.
        if (!key.empty()) static_cast<void>(post_.add_header("Idempotency-Key", key));
        if (may_have_token(url, options_.token_hosts)) {
            // make_http_poster() refuses a token that cannot be a header.
            if (!options_.token.empty()) ASSERT(post_.add_header("Authorization", "Bearer " + options_.token));
        } else if (!options_.token.empty()) {
            withheld_ = shorten(one_line(parts->scheme + "://" + parts->host), kMaxHostBytes);
        }
        post_.finish();
        curl_easy_setopt(post_.easy(), CURLOPT_URL, url.c_str());
        return answer(curl_easy_perform(post_.easy()));
    }

    void stop() override { stopped_ = true; }

private:
    PostAnswer answer(CURLcode code) const {
        const int status = post_.status();
        if (status != 0 && post_.header_complete()) {
            PostAnswer answer{.status = status};
            if (answer.is_success()) return answer;
            answer.code = std::to_string(status);
            answer.problem = fmt::format("HTTP {}{}", status, status < 400 ? ": redirects are not followed" : "");
            if ((status == 401 || status == 403) && !withheld_.empty()) {
                answer.problem += fmt::format("; it was sent without the token, which is not for {}", withheld_);
            }
            answer.retry_after = parse_retry_after(post_.retry_after(), SystemClock().wall_now());
            return answer;
        }
        if (code == CURLE_ABORTED_BY_CALLBACK && stopped_) {
            return {0, "STOPPED", "deliverd is stopping and does not wait for the answer"};
        }
        // Not where a socket was opened too: a name may have a public address besides the private one.
        if (!refused_.empty() && !opened_ && !post_.request_began()) {
            return {0, "PRIVATE_ADDRESS",
                    fmt::format("the endpoint's address {} is private; nothing was sent", refused_)};
        }
        const auto words = code == CURLE_OK ? "the connection ended within the answer" : post_.problem(code);
        return {0, code == CURLE_OPERATION_TIMEDOUT ? "NETWORK_TIMEOUT" : "NETWORK_ERROR",
                shorten(one_line(words), kMaxProblemBytes)};
    }

    /// Without it libcurl would print the answer to standard output.
    static std::size_t on_body(char* /*data*/, std::size_t size, std::size_t count, void* /*unused*/) {
        return size * count;  // only the status counts; the time limits how much is read
    }

    /// The address is checked here and not in the URL: libcurl has resolved the name, whatever it led to this time.
    static curl_socket_t on_socket(void* self, curlsocktype purpose, curl_sockaddr* address) {
        auto& poster = *static_cast<CurlPoster*>(self);
        if (!poster.options_.allow_private && (purpose != CURLSOCKTYPE_IPCXN || is_private_address(address->addr))) {
            poster.refused_ = address_text(address->addr);
            return CURL_SOCKET_BAD;
        }
        poster.opened_ = true;
        return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    }

    static constexpr std::size_t kMaxProblemBytes = 512;
    static constexpr std::size_t kMaxHostBytes = 128;

    const HttpPosterOptions options_;
    std::atomic<bool> stopped_ = false;
    CurlRequest post_;
    // Of the post under way.
    bool opened_ = false;   // a socket
    std::string refused_;   // the address that was not public
    std::string withheld_;  // the host that the token may not go to
};

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

Result<std::unique_ptr<HttpPoster>> make_http_poster(HttpPosterOptions options) {
    if (!is_header("Authorization", options.token)) {
        return bad_argument("the bearer token has a line break or a control character in it");
    }
    for (std::string& host : options.token_hosts) {
        TRY_ASSIGN(auto read, read_token_host(host));
        host = std::move(read);
    }
    return std::make_unique<CurlPoster>(std::move(options));
}

}  // namespace deliverd::sink
