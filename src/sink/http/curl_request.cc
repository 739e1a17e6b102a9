#include "sink/http/curl_request.h"

#include <fmt/format.h>

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

int on_progress(void* stopped, curl_off_t /*down*/, curl_off_t /*of*/, curl_off_t /*up*/, curl_off_t /*of*/) {
    return static_cast<const std::atomic<bool>*>(stopped)->load() ? 1 : 0;
}

}  // namespace

CurlRequest::CurlRequest(const HttpSinkOptions& options) : easy_(curl_easy_init()) {
    if (!easy_) throw std::bad_alloc();
    CURL* handle = easy_.get();
    curl_easy_setopt(handle, CURLOPT_URL, options.url.c_str());
    curl_easy_setopt(handle, CURLOPT_USERAGENT, "deliverd");
    curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    // A redirect would carry the token and the body to a place that nobody configured.
    curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(handle, CURLOPT_PROXY, "");     // not even from the environment
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);  // libcurl's timeouts of resolving use SIGALRM otherwise
    // HTTP/2 where TLS agrees on it. Over plain HTTP it would take an upgrade that few receivers understand.
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
    curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, problem_.data());
    curl_easy_setopt(handle, CURLOPT_POST, 1L);
    curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, &CurlRequest::on_header);
    curl_easy_setopt(handle, CURLOPT_HEADERDATA, static_cast<void*>(this));
    curl_easy_setopt(handle, CURLOPT_READFUNCTION, &CurlRequest::on_read);
    curl_easy_setopt(handle, CURLOPT_READDATA, static_cast<void*>(this));
    curl_easy_setopt(handle, CURLOPT_SEEKFUNCTION, &CurlRequest::on_seek);
    curl_easy_setopt(handle, CURLOPT_SEEKDATA, static_cast<void*>(this));
}

void CurlRequest::end_when(const std::atomic<bool>& stopped) {
    curl_easy_setopt(easy_.get(), CURLOPT_XFERINFOFUNCTION, &on_progress);
    curl_easy_setopt(easy_.get(), CURLOPT_XFERINFODATA, const_cast<std::atomic<bool>*>(&stopped));
    curl_easy_setopt(easy_.get(), CURLOPT_NOPROGRESS, 0L);
}

void CurlRequest::append_line(const std::string& line) {
    curl_slist* longer = curl_slist_append(headers_.get(), line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    if (!headers_) headers_.reset(longer);  // otherwise the list keeps its first entry
}

void CurlRequest::begin(std::string_view body) {
    body_ = body;
    body_sent_ = 0;
    header_complete_ = false;
    problem_.front() = '\0';
    headers_.reset();
    append_line("Expect:");  // libcurl would wait for "100 Continue" with bodies over a megabyte
}

bool CurlRequest::add_header(std::string_view name, std::string_view value) {
    if (!is_header(name, value)) return false;
    const bool has_value = value.find_first_not_of(" \t") != std::string_view::npos;
    // ";" is libcurl's spelling of a header without a value; "Name:" would remove it.
    append_line(has_value ? fmt::format("{}: {}", name, value) : fmt::format("{};", name));
    return true;
}

void CurlRequest::finish() {
    curl_easy_setopt(easy_.get(), CURLOPT_HTTPHEADER, headers_.get());
    curl_easy_setopt(easy_.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body_.size()));
    // Without a body on_seek() is never asked: only a new connection keeps libcurl from sending twice.
    curl_easy_setopt(easy_.get(), CURLOPT_FRESH_CONNECT, body_.empty() ? 1L : 0L);
}

int CurlRequest::status() const {
    long status = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    // 100 and its like only announce an answer.
    return status >= 200 ? static_cast<int>(status) : 0;
}

bool CurlRequest::request_began() const {
    long request_bytes = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_REQUEST_SIZE, &request_bytes);
    return request_bytes > 0 || body_sent_ > 0;
}

std::string_view CurlRequest::retry_after() const {
    curl_header* header = nullptr;
    const bool found = curl_easy_header(easy_.get(), "Retry-After", 0, CURLH_HEADER, -1, &header) == CURLHE_OK;
    return found ? std::string_view(header->value) : std::string_view();
}

std::string_view CurlRequest::problem(CURLcode code) const {
    if (code == CURLE_SEND_FAIL_REWIND) return "the connection ended before an answer came";
    return problem_.front() != '\0' ? problem_.data() : curl_easy_strerror(code);
}

std::size_t CurlRequest::on_header(char* data, std::size_t size, std::size_t count, void* self) {
    const std::string_view line(data, size * count);
    // Overwritten by each line: the header of a 1xx ends with an empty line too, and then the answer's begins.
    static_cast<CurlRequest*>(self)->header_complete_ = line == "\r\n" || line == "\n";
    return line.size();
}

std::size_t CurlRequest::on_read(char* out, std::size_t size, std::size_t count, void* self) {
    auto& post = *static_cast<CurlRequest*>(self);
    const std::string_view left = post.body_.substr(post.body_sent_);
    const std::size_t bytes = std::min(size * count, left.size());
    std::memcpy(out, left.data(), bytes);
    post.body_sent_ += bytes;
    return bytes;
}

int CurlRequest::on_seek(void* self, curl_off_t offset, int origin) {
    const bool nothing_sent = static_cast<CurlRequest*>(self)->body_sent_ == 0 && offset == 0 && origin == SEEK_SET;
    return nothing_sent ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL;
}

}  // namespace deliverd::sink
