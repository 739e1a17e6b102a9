#include "sink/http/http_get.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <utility>

#include "base/text.h"
#include "sink/http/curl_post.h"

namespace deliverd::sink {

namespace {

constexpr std::size_t kMaxGetProblemBytes = 512;

/// What libcurl's callbacks see.
struct Document {
    const std::atomic<bool>& stopped;
    std::size_t max_bytes;
    std::string body{};
    bool too_long = false;

    static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self) {
        auto& document = *static_cast<Document*>(self);
        const std::size_t bytes = size * count;
        document.too_long = bytes > document.max_bytes - document.body.size();
        if (document.too_long) return 0;  // ends the transfer
        document.body.append(data, bytes);
        return bytes;
    }

    static int on_progress(void* self, curl_off_t /*down*/, curl_off_t /*of*/, curl_off_t /*up*/, curl_off_t /*of*/) {
        return static_cast<Document*>(self)->stopped ? 1 : 0;
    }
};

}  // namespace

Result<std::string> http_get(const HttpGetOptions& options, const std::atomic<bool>& stopped) {
    if (const auto good = check_http_url(options.url); !good) {
        return permanent(good.error().code, fmt::format("the URL {}", good.error().message));
    }
    HttpSinkOptions request;
    request.url = options.url;
    request.ca_file = options.ca_file;
    request.connect_timeout = options.connect_timeout;
    request.timeout = options.timeout;
    CurlProblem problem;
    Document document{stopped, options.max_bytes};
    const Easy easy = make_easy(request);  // destroyed first: it refers to both
    CURL* handle = easy.get();
    problem.attach(handle);
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &Document::on_body);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, static_cast<void*>(&document));
    curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, &Document::on_progress);
    curl_easy_setopt(handle, CURLOPT_XFERINFODATA, static_cast<void*>(&document));
    curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
    const CURLcode code = curl_easy_perform(handle);
    if (document.too_long) {
        return retryable("http_get", fmt::format("the answer is longer than {} bytes", options.max_bytes));
    }
    if (code != CURLE_OK) return retryable("http_get", shorten(one_line(problem.words(code)), kMaxGetProblemBytes));
    long status = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200) {
        const bool redirect = status >= 300 && status < 400;
        return retryable("http_get", fmt::format("HTTP {}{}", status, redirect ? ": redirects are not followed" : ""));
    }
    return std::move(document.body);
}

}  // namespace deliverd::sink
