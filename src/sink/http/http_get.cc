#include "sink/http/http_get.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <utility>

#include "base/text.h"
#include "sink/http/curl_request.h"

namespace deliverd::sink {

namespace {

constexpr std::size_t kMaxGetProblemBytes = 512;

struct Document {
    std::size_t max_bytes;
    std::string body{};
    bool too_long = false;

    static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self) {
        auto& document = *static_cast<Document*>(self);
        const std::size_t bytes = size * count;
        // Counted here: an answer need not say its length, and may say a wrong one.
        document.too_long = bytes > document.max_bytes - document.body.size();
        if (document.too_long) return 0;  // ends the transfer
        document.body.append(data, bytes);
        return bytes;
    }
};

}  // namespace

Result<std::string> http_get(const HttpGetOptions& options, const std::atomic<bool>& stopped) {
    if (const auto good = check_http_url(options.url); !good) {
        return permanent(good.error().code, fmt::format("the URL {}", good.error().message));
    }
    Document document{options.max_bytes};
    CurlRequest request({.url = options.url,
                         .connect_timeout = options.connect_timeout,
                         .timeout = options.timeout,
                         .ca_file = options.ca_file});
    curl_easy_setopt(request.easy(), CURLOPT_HTTPGET, 1L);
    curl_easy_setopt(request.easy(), CURLOPT_WRITEFUNCTION, &Document::on_body);
    curl_easy_setopt(request.easy(), CURLOPT_WRITEDATA, static_cast<void*>(&document));
    request.end_when(stopped);
    const CURLcode code = curl_easy_perform(request.easy());
    if (document.too_long) {
        return retryable("http_get", fmt::format("the answer is longer than {} bytes", options.max_bytes));
    }
    if (code != CURLE_OK) return retryable("http_get", shorten(one_line(request.problem(code)), kMaxGetProblemBytes));
    // Other successes have no document (204) or a part of one (206).
    const int status = request.status();
    if (status == 200) return std::move(document.body);
    const bool redirect = status >= 300 && status < 400;
    return retryable("http_get", fmt::format("HTTP {}{}", status, redirect ? ": redirects are not followed" : ""));
}

}  // namespace deliverd::sink
