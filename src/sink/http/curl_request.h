// One request after another on a libcurl handle.
//
// libcurl repeats a request by itself when a kept connection ended before an answer came. One attempt would become two,
// and whether a message may be sent twice is not for libcurl to decide. It asks for that by rewinding the body, which
// is refused here once a byte of it was sent. A request without a body is never rewound: it gets a new connection,
// where libcurl does not repeat.
#pragma once

#include <curl/curl.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/handle.h"
#include "sink/http/http_options.h"

namespace deliverd::sink {

/// With the options' URL, timeouts and TLS; only http and https, no proxy, no redirects. A POST unless the handle is
/// set to something else. One thread at a time.
class CurlRequest {
public:
    explicit CurlRequest(const HttpSinkOptions& options);
    CurlRequest(const CurlRequest&) = delete;
    CurlRequest& operator=(const CurlRequest&) = delete;

    /// Ends the transfer under way within about a second once `stopped` is true. It must outlive the transfer.
    void end_when(const std::atomic<bool>& stopped);

    /// Forgets the request before. `body` must stay valid until the transfer has ended.
    void begin(std::string_view body);
    /// False, and nothing was added, where it fails is_header().
    [[nodiscard]] bool add_header(std::string_view name, std::string_view value);
    /// After the last header: the transfer may start.
    void finish();

    [[nodiscard]] CURL* easy() const { return easy_.get(); }

    // After the transfer.

    /// The answer's status; 0 where no answer's header began.
    [[nodiscard]] int status() const;
    /// Whether the header came as a whole. An answer that ends within its header is fine with libcurl.
    [[nodiscard]] bool header_complete() const { return header_complete_; }
    /// Whether some of the request may have left this machine.
    [[nodiscard]] bool request_began() const;
    /// The answer's Retry-After; empty where there is none.
    [[nodiscard]] std::string_view retry_after() const;
    [[nodiscard]] std::string_view problem(CURLcode code) const;

private:
    void append_line(const std::string& line);
    static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self);
    static std::size_t on_read(char* out, std::size_t size, std::size_t count, void* self);
    static int on_seek(void* self, curl_off_t offset, int origin);

    std::array<char, CURL_ERROR_SIZE> problem_{};  // libcurl writes it; must outlive the handle
    Handle<CURL, curl_easy_cleanup> easy_;
    Handle<curl_slist, curl_slist_free_all> headers_;
    std::string_view body_;
    std::size_t body_sent_ = 0;
    bool header_complete_ = false;
};

}  // namespace deliverd::sink
