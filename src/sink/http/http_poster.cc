#include "sink/http/http_poster.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <atomic>
#include <utility>

#include "base/assert.h"
#include "base/text.h"
#include "base/try.h"
#include "message/retry_after.h"
#include "sink/http/address_guard.h"
#include "sink/http/curl_request.h"
#include "sink/http/http_url.h"
#include "sink/http/request_headers.h"

namespace deliverd::sink {

namespace {

HttpSinkOptions request_options(const HttpPosterOptions& options) {
    HttpSinkOptions out;
    out.connect_timeout = options.connect_timeout;
    out.timeout = options.timeout;
    return out;
}

class CurlPoster final : public HttpPoster {
public:
    explicit CurlPoster(HttpPosterOptions options) : options_(std::move(options)), post_(request_options(options_)) {
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
            return {0, "STOPPED", "the program is stopping and does not wait for the answer"};
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
