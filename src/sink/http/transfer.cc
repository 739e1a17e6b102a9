#include "sink/http/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "base/text.h"
#include "sink/http/event_headers.h"

namespace deliverd::sink {

namespace {

constexpr std::string_view kMask = "***";
constexpr std::size_t kLeastSecretBytes = 6;  // shorter texts stand in answers by chance

/// Reusing an idle connection that the receiver is closing at that moment loses the request, so connections
/// are not kept as long as libcurl would.
constexpr long kMaxIdleSeconds = 30;

long milliseconds(Duration span) {
    const auto count = std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
    return static_cast<long>(std::clamp<std::int64_t>(count, 1, 24L * 3600 * 1000));  // 0 would mean "for ever"
}

bool is_token_character(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && std::strchr("!#$%&'*+-.^_`|~", c) != nullptr);
}

/// Headers that say where a request ends are libcurl's to write.
bool is_framing(std::string_view name) {
    std::string lower(name);
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return lower == "content-length" || lower == "transfer-encoding" || lower == "connection";
}

Failure bad_header(std::string_view name) {
    return permanent("BAD_REQUEST", fmt::format("header '{}' cannot be sent: it has a line break, a control character "
                                                "or a name that may not be set",
                                                shorten(one_line(name), 64)));
}

}  // namespace

bool is_header(std::string_view name, std::string_view value) {
    return !name.empty() && !is_framing(name) && std::all_of(name.begin(), name.end(), is_token_character) &&
           std::none_of(value.begin(), value.end(),
                        [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 127; });
}

Easy make_easy(const Target& target) {
    Easy easy(curl_easy_init());
    if (!easy) throw std::bad_alloc();
    CURL* handle = easy.get();
    const auto& options = target.options;
    curl_easy_setopt(handle, CURLOPT_URL, options.url.c_str());
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
    // A name server that does not answer would otherwise hold up every transfer: libcurl waits for its
    // resolver thread when a transfer that is still resolving times out.
    curl_easy_setopt(handle, CURLOPT_QUICK_EXIT, 1L);
    return easy;
}

Transfer::Transfer(const Target& target) : target_(target), easy_(make_easy(target)) {
    CURL* handle = easy_.get();
    curl_easy_setopt(handle, CURLOPT_PRIVATE, static_cast<void*>(this));
    curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, problem_.data());
    curl_easy_setopt(handle, CURLOPT_USERAGENT, "deliverd");
    curl_easy_setopt(handle, CURLOPT_POST, 1L);
    curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, &Transfer::on_header);
    curl_easy_setopt(handle, CURLOPT_HEADERDATA, static_cast<void*>(this));
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &Transfer::on_body);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, static_cast<void*>(this));
    curl_easy_setopt(handle, CURLOPT_READFUNCTION, &Transfer::on_read);
    curl_easy_setopt(handle, CURLOPT_READDATA, static_cast<void*>(this));
    curl_easy_setopt(handle, CURLOPT_SEEKFUNCTION, &Transfer::on_seek);
    curl_easy_setopt(handle, CURLOPT_SEEKDATA, static_cast<void*>(this));
    // With HTTP/2 requests share a connection: the second waits to see whether the first's can be shared.
    if (target.is_https) curl_easy_setopt(handle, CURLOPT_PIPEWAIT, 1L);
}

void Transfer::append_line(const std::string& line) {
    curl_slist* shorter = headers_.release();
    curl_slist* longer = curl_slist_append(shorter, line.c_str());
    headers_.reset(longer != nullptr ? longer : shorter);
    if (longer == nullptr) throw std::bad_alloc();
}

Result<void> Transfer::add_header(std::string_view name, std::string_view value) {
    if (!is_header(name, value)) {
        return bad_header(name);
    }
    line_.assign(name);
    if (value.find_first_not_of(" \t") == std::string_view::npos) {
        line_.push_back(';');  // libcurl's spelling of a header without a value; "Name:" would remove it
    } else {
        line_.append(": ").append(value);
    }
    append_line(line_);
    return {};
}

Result<void> Transfer::add_headers(const Message& message, const RequestProof& proof) {
    Result<void> added = add_header("Content-Type", message.content_type);
    const auto add = [&](std::string_view name, std::string_view value) {
        if (added) added = add_header(name, value);
    };
    if (!message.message_id.empty()) add("Idempotency-Key", message.message_id);
    if (const auto& events = target_.options.events) {
        for (const auto& [name, value] : event_headers(message, *events)) add(name, value);
    } else {
        for (const auto& [name, value] : message.headers) {
            if (is_trusted_header(name)) return bad_header(name);
            add(name, value);
        }
    }
    for (const auto& [name, value] : target_.options.headers) add(name, value);
    if (!proof.token.empty()) add("Authorization", fmt::format("Bearer {}", proof.token));
    if (!proof.signature.empty()) {
        add("webhook-id", message.message_id);
        add("webhook-timestamp", proof.timestamp);
        add("webhook-signature", proof.signature);
    }
    return added;
}

Result<void> Transfer::prepare(const Message& message, OutcomeReceiver& receiver, const RequestProof& proof) {
    message_ = &message;
    receiver_ = &receiver;
    token_ = proof.token;
    body_sent_ = 0;
    answer_.clear();
    answer_cut_ = false;
    header_complete_ = false;
    problem_.front() = '\0';
    headers_.reset();
    append_line("Expect:");  // libcurl would wait for "100 Continue" with bodies over a megabyte
    if (auto added = add_headers(message, proof); !added) return added;

    curl_easy_setopt(easy_.get(), CURLOPT_HTTPHEADER, headers_.get());
    curl_easy_setopt(easy_.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(message.body.size()));
    // on_seek keeps libcurl from repeating a request by itself, but is only asked when a body was sent. A
    // request without one goes out on a new connection, where libcurl never repeats.
    curl_easy_setopt(easy_.get(), CURLOPT_FRESH_CONNECT, message.body.empty() ? 1L : 0L);
    return {};
}

Ending Transfer::ending_of(CURLcode code, int status) const {
    // An answer that ends within its header is fine with libcurl, but not with us.
    if (header_complete_ && (code == CURLE_OK || answer_cut_)) return Ending::answered;
    switch (code) {
        case CURLE_OPERATION_TIMEDOUT:
            return Ending::timed_out;
        case CURLE_PEER_FAILED_VERIFICATION:
            return Ending::not_accepted;
        case CURLE_WEIRD_SERVER_REPLY:
        case CURLE_UNSUPPORTED_PROTOCOL:  // "HTTP/0.9": an answer without a status line
            return Ending::unreadable;
        default:
            break;
    }
    return status != 0 ? Ending::broken_off : Ending::lost;
}

std::string Transfer::masked_answer() const {
    std::string text = answer_;
    const auto mask = [&text](std::string_view secret) {
        if (secret.size() < kLeastSecretBytes) return;
        for (std::size_t at = text.find(secret); at != std::string::npos; at = text.find(secret, at + kMask.size())) {
            text.replace(at, secret.size(), kMask);
        }
    };
    mask(token_);
    for (const auto& [name, value] : target_.options.headers) {
        // `token:` of the configuration is here; what follows "Bearer" is the secret.
        if (name == "Authorization") mask(std::string_view(value).substr(value.rfind(' ') + 1));
    }
    return text;
}

Outcome Transfer::outcome(CURLcode code, WallTime now) const {
    long status = 0;
    long request_bytes = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(easy_.get(), CURLINFO_REQUEST_SIZE, &request_bytes);
    curl_header* retry_after = nullptr;
    curl_easy_header(easy_.get(), "Retry-After", 0, CURLH_HEADER, -1, &retry_after);

    Exchange exchange;
    exchange.status = status >= 200 ? static_cast<int>(status) : 0;
    exchange.ending = ending_of(code, exchange.status);
    exchange.request_began = request_bytes > 0 || body_sent_ > 0;
    const std::string answer = masked_answer();
    exchange.body = answer;
    exchange.body_cut = answer_cut_;
    if (retry_after != nullptr) exchange.retry_after = retry_after->value;
    exchange.problem = problem_.front() != '\0' ? problem_.data() : curl_easy_strerror(code);
    if (code == CURLE_SEND_FAIL_REWIND) exchange.problem = "the connection ended before an answer came";
    exchange.host = target_.host;
    exchange.timeout = target_.options.timeout;
    return outcome_of(exchange, message_->message_id, {target_.options.receipt_fields, target_.options.broker}, now);
}

std::size_t Transfer::on_header(char* data, std::size_t size, std::size_t count, void* self) {
    const std::string_view line(data, size * count);
    static_cast<Transfer*>(self)->header_complete_ = line == "\r\n" || line == "\n";
    return line.size();
}

std::size_t Transfer::on_body(char* data, std::size_t size, std::size_t count, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    const std::size_t bytes = size * count;
    const std::size_t room = transfer.target_.options.max_answer_bytes - transfer.answer_.size();
    transfer.answer_.append(data, std::min(bytes, room));
    if (bytes <= room) return bytes;
    transfer.answer_cut_ = true;
    return 0;  // ends the transfer: the status is known, the rest is not wanted
}

std::size_t Transfer::on_read(char* out, std::size_t size, std::size_t count, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    const std::string_view left = std::string_view(transfer.message_->body).substr(transfer.body_sent_);
    const std::size_t bytes = std::min(size * count, left.size());
    std::memcpy(out, left.data(), bytes);
    transfer.body_sent_ += bytes;
    return bytes;
}

/// libcurl asks to start over when a reused connection ended before an answer came: it would send the message
/// a second time, though the first may have been taken. That is not ours to decide.
int Transfer::on_seek(void* self, curl_off_t offset, int origin) {
    const auto& transfer = *static_cast<Transfer*>(self);
    const bool nothing_sent = transfer.body_sent_ == 0 && offset == 0 && origin == SEEK_SET;
    return nothing_sent ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_FAIL;
}

}  // namespace deliverd::sink
