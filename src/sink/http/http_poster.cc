#include "sink/http/http_poster.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "message/http_answer.h"
#include "sink/http/address_guard.h"
#include "sink/http/http_sink.h"
#include "sink/http/target.h"
#include "sink/http/token_hosts.h"
#include "sink/http/transfer.h"

namespace deliverd::sink {

namespace {

class CurlPoster final : public HttpPoster {
public:
    explicit CurlPoster(HttpPosterOptions options) : options_(std::move(options)) {
        Target target;
        target.options.connect_timeout = options_.connect_timeout;
        target.options.timeout = options_.timeout;
        easy_ = make_easy(target);
        CURL* handle = easy_.get();
        curl_easy_setopt(handle, CURLOPT_USERAGENT, "deliverd");
        curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, problem_.data());
        curl_easy_setopt(handle, CURLOPT_POST, 1L);
        curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, &CurlPoster::on_header);
        curl_easy_setopt(handle, CURLOPT_HEADERDATA, static_cast<void*>(this));
        curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &CurlPoster::on_body);
        curl_easy_setopt(handle, CURLOPT_READFUNCTION, &CurlPoster::on_read);
        curl_easy_setopt(handle, CURLOPT_READDATA, static_cast<void*>(this));
        curl_easy_setopt(handle, CURLOPT_SEEKFUNCTION, &CurlPoster::on_seek);
        curl_easy_setopt(handle, CURLOPT_SEEKDATA, static_cast<void*>(this));
        curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, &CurlPoster::on_socket);
        curl_easy_setopt(handle, CURLOPT_OPENSOCKETDATA, static_cast<void*>(this));
        curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, &CurlPoster::on_progress);
        curl_easy_setopt(handle, CURLOPT_XFERINFODATA, static_cast<void*>(this));
        curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
    }

    PostAnswer post(const std::string& url, const std::string& body, const std::string& key) override {
        if (const auto good = check_http_url(url); !good)
            return {0, "BAD_ENDPOINT", "the endpoint " + good.error().message};
        headers_.reset();
        append("Expect:");
        append("Content-Type: application/json");
        if (is_header("Idempotency-Key", key) && !key.empty()) append("Idempotency-Key: " + key);
        withheld_.clear();
        if (may_have_token(url, options_.token_hosts)) {
            if (!options_.token.empty()) append("Authorization: Bearer " + options_.token);
        } else if (const auto parts = split_http_url(url); parts && !options_.token.empty()) {
            withheld_ = shorten(one_line(parts->scheme + "://" + parts->host), kMaxHostBytes);
        }
        body_ = body;
        body_sent_ = 0;
        header_complete_ = false;
        opened_ = false;
        refused_.clear();
        problem_.front() = '\0';
        CURL* handle = easy_.get();
        curl_easy_setopt(handle, CURLOPT_URL, url.c_str());
        curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers_.get());
        curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
        // on_seek is only asked when a body was sent; on a new connection libcurl never repeats a request.
        curl_easy_setopt(handle, CURLOPT_FRESH_CONNECT, body.empty() ? 1L : 0L);
        return answer(curl_easy_perform(handle));
    }

    void stop() override { stopped_ = true; }

private:
    struct ListDeleter {
        void operator()(curl_slist* list) const { curl_slist_free_all(list); }
    };

    void append(const std::string& line) {
        curl_slist* longer = curl_slist_append(headers_.get(), line.c_str());
        if (longer == nullptr) throw std::bad_alloc();
        if (!headers_) headers_.reset(longer);
    }

    PostAnswer answer(CURLcode code) const {
        PostAnswer answer;
        long status = 0;
        curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
        if (status >= 200 && header_complete_) {  // an answer that ends within its header is none
            answer.status = static_cast<int>(status);
            if (answer.is_success()) return answer;
            answer.code = std::to_string(status);
            answer.problem = fmt::format("HTTP {}{}", status, status < 400 ? ": redirects are not followed" : "");
            if ((status == 401 || status == 403) && !withheld_.empty()) {
                answer.problem += fmt::format("; it was sent without the token, which is not for {}", withheld_);
            }
            curl_header* header = nullptr;
            if (curl_easy_header(easy_.get(), "Retry-After", 0, CURLH_HEADER, -1, &header) == CURLHE_OK) {
                answer.retry_after = parse_retry_after(header->value, SystemClock().wall_now());
            }
            return answer;
        }
        if (code == CURLE_ABORTED_BY_CALLBACK && stopped_) {
            answer.code = "STOPPED";
            answer.problem = "nobody waited for the answer: the program is about to end";
            return answer;
        }
        if (!refused_.empty() && !opened_ && body_sent_ == 0) {
            answer.code = "PRIVATE_ADDRESS";
            answer.problem = fmt::format("the endpoint's address {} is private; nothing was sent", refused_);
            return answer;
        }
        answer.code = code == CURLE_OPERATION_TIMEDOUT ? "NETWORK_TIMEOUT" : "NETWORK_ERROR";
        const char* words = problem_.front() == '\0' ? curl_easy_strerror(code) : problem_.data();
        if (code == CURLE_SEND_FAIL_REWIND) words = "the connection ended before an answer came";
        if (code == CURLE_OK) words = "the connection ended within the answer";
        answer.problem = shorten(one_line(words), kMaxProblemBytes);
        return answer;
    }

    static std::size_t on_body(char* /*data*/, std::size_t size, std::size_t count, void* /*unused*/) {
        return size * count;  // only the status counts; the time limits how much is read
    }

    static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self) {
        const std::string_view line(data, size * count);
        static_cast<CurlPoster*>(self)->header_complete_ = line == "\r\n" || line == "\n";
        return line.size();
    }

    static std::size_t on_read(char* out, std::size_t size, std::size_t count, void* self) {
        auto& poster = *static_cast<CurlPoster*>(self);
        const std::string_view left = poster.body_.substr(poster.body_sent_);
        const std::size_t bytes = std::min(size * count, left.size());
        std::memcpy(out, left.data(), bytes);
        poster.body_sent_ += bytes;
        return bytes;
    }

    /// libcurl asks to start over when a reused connection ended before an answer came: one attempt would be two.
    static int on_seek(void* self, curl_off_t offset, int origin) {
        const bool nothing_sent = static_cast<CurlPoster*>(self)->body_sent_ == 0 && offset == 0 && origin == SEEK_SET;
        return nothing_sent ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL;
    }

    static curl_socket_t on_socket(void* self, curlsocktype purpose, curl_sockaddr* address) {
        auto& poster = *static_cast<CurlPoster*>(self);
        if (!poster.options_.allow_private && (purpose != CURLSOCKTYPE_IPCXN || is_private_address(address->addr))) {
            poster.refused_ = address_text(address->addr);
            return CURL_SOCKET_BAD;
        }
        poster.opened_ = true;
        return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    }

    static int on_progress(void* self, curl_off_t /*down*/, curl_off_t /*of*/, curl_off_t /*up*/, curl_off_t /*of*/) {
        return static_cast<CurlPoster*>(self)->stopped_ ? 1 : 0;
    }

    static constexpr std::size_t kMaxProblemBytes = 512;
    static constexpr std::size_t kMaxHostBytes = 128;

    const HttpPosterOptions options_;
    std::atomic<bool> stopped_ = false;
    Easy easy_;
    std::unique_ptr<curl_slist, ListDeleter> headers_;
    std::array<char, CURL_ERROR_SIZE> problem_{};
    // Of the post under way.
    std::string_view body_;
    std::size_t body_sent_ = 0;
    bool header_complete_ = false;
    bool opened_ = false;   // a socket
    std::string refused_;   // the address that was not public
    std::string withheld_;  // where the token may not go
};

}  // namespace

Result<std::unique_ptr<HttpPoster>> make_http_poster(HttpPosterOptions options) {
    if (!is_header("Authorization", options.token)) {
        return permanent("bad_argument", "the bearer token has a line break or a control character in it");
    }
    for (std::string& host : options.token_hosts) {
        auto read = read_token_host(host);
        if (!read) return Failure(read.error());
        host = std::move(*read);
    }
    return std::make_unique<CurlPoster>(std::move(options));
}

}  // namespace deliverd::sink
