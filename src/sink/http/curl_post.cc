#include "sink/http/curl_post.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>

#include "sink/http/request_headers.h"

namespace deliverd::sink {

namespace {

/// A request on a connection that the receiver closes at that moment is lost, so idle connections are not kept as long
/// as libcurl would.
constexpr long kMaxIdleSeconds = 30;

long milliseconds(Duration span) {
    const auto count = std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
    return static_cast<long>(std::clamp<std::int64_t>(count, 1, 24L * 3600 * 1000));  // 0 would mean "for ever"
}

}  // namespace

Easy make_easy(const HttpSinkOptions& options) {
    Easy easy(curl_easy_init());
    if (!easy) throw std::bad_alloc();
    CURL* handle = easy.get();
    curl_easy_setopt(handle, CURLOPT_URL, options.url.c_str());
    curl_easy_setopt(handle, CURLOPT_USERAGENT, "deliverd");
    curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(handle, CURLOPT_PROXY, "");  // not even from the environment
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
    curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(options.connect_timeout));
    curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, milliseconds(options.timeout));
    curl_easy_setopt(handle, CURLOPT_MAXAGE_CONN, kMaxIdleSeconds);
    curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, options.verify_tls ? 1L : 0L);
    curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, options.verify_tls ? 2L : 0L);
    if (!options.ca_file.empty()) {
        curl_easy_setopt(handle, CURLOPT_CAINFO, options.ca_file.c_str());
        curl_easy_setopt(handle, CURLOPT_CAPATH, nullptr);  // the system's folder would count as well
    }
    // libcurl waits for its resolver thread when a transfer times out while resolving: a name server that does not
    // answer would delay every transfer.
    curl_easy_setopt(handle, CURLOPT_QUICK_EXIT, 1L);
    return easy;
}

CurlPost::CurlPost(const HttpSinkOptions& options) : easy_(make_easy(options)) {
    CURL* handle = easy_.get();
    problem_.attach(handle);
    curl_easy_setopt(handle, CURLOPT_POST, 1L);
    curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, &CurlPost::on_header);
    curl_easy_setopt(handle, CURLOPT_HEADERDATA, static_cast<void*>(this));
    curl_easy_setopt(handle, CURLOPT_READFUNCTION, &CurlPost::on_read);
    curl_easy_setopt(handle, CURLOPT_READDATA, static_cast<void*>(this));
    curl_easy_setopt(handle, CURLOPT_SEEKFUNCTION, &CurlPost::on_seek);
    curl_easy_setopt(handle, CURLOPT_SEEKDATA, static_cast<void*>(this));
}

void CurlPost::append_line(const std::string& line) {
    curl_slist* longer = curl_slist_append(headers_.get(), line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    if (!headers_) headers_.reset(longer);  // otherwise the list keeps its first entry
}

void CurlPost::begin(std::string_view body) {
    body_ = body;
    body_sent_ = 0;
    header_complete_ = false;
    problem_.clear();
    headers_.reset();
    append_line("Expect:");  // libcurl would wait for "100 Continue" with bodies over a megabyte
}

bool CurlPost::add_header(std::string_view name, std::string_view value) {
    if (!is_header(name, value)) return false;
    line_.assign(name);
    if (value.find_first_not_of(" \t") == std::string_view::npos) {
        line_.push_back(';');  // libcurl's spelling of a header without a value; "Name:" would remove it
    } else {
        line_.append(": ").append(value);
    }
    append_line(line_);
    return true;
}

void CurlPost::finish() {
    curl_easy_setopt(easy_.get(), CURLOPT_HTTPHEADER, headers_.get());
    curl_easy_setopt(easy_.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body_.size()));
    curl_easy_setopt(easy_.get(), CURLOPT_FRESH_CONNECT, body_.empty() ? 1L : 0L);
}

int CurlPost::status() const {
    long status = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    return status >= 200 ? static_cast<int>(status) : 0;
}

bool CurlPost::request_began() const {
    long request_bytes = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_REQUEST_SIZE, &request_bytes);
    return request_bytes > 0 || body_sent_ > 0;
}

std::string_view CurlPost::retry_after() const {
    curl_header* header = nullptr;
    const bool found = curl_easy_header(easy_.get(), "Retry-After", 0, CURLH_HEADER, -1, &header) == CURLHE_OK;
    return found ? std::string_view(header->value) : std::string_view();
}

std::string_view CurlPost::problem(CURLcode code) const {
    if (code == CURLE_SEND_FAIL_REWIND) return "the connection ended before an answer came";
    return problem_.words(code);
}

std::size_t CurlPost::on_header(char* data, std::size_t size, std::size_t count, void* self) {
    const std::string_view line(data, size * count);
    static_cast<CurlPost*>(self)->header_complete_ = line == "\r\n" || line == "\n";
    return line.size();
}

std::size_t CurlPost::on_read(char* out, std::size_t size, std::size_t count, void* self) {
    auto& post = *static_cast<CurlPost*>(self);
    const std::string_view left = post.body_.substr(post.body_sent_);
    const std::size_t bytes = std::min(size * count, left.size());
    std::memcpy(out, left.data(), bytes);
    post.body_sent_ += bytes;
    return bytes;
}

int CurlPost::on_seek(void* self, curl_off_t offset, int origin) {
    const bool nothing_sent = static_cast<CurlPost*>(self)->body_sent_ == 0 && offset == 0 && origin == SEEK_SET;
    return nothing_sent ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL;
}

}  // namespace deliverd::sink
