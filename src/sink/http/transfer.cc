#include "sink/http/transfer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/try.h"
#include "message/http_answer.h"
#include "sink/http/request_headers.h"

namespace deliverd::sink {

namespace {

constexpr std::string_view kMask = "***";
constexpr std::size_t kLeastSecretBytes = 6;  // a shorter text is in an answer by chance
constexpr int kConflict = 409;

/// A refusal is one however its body ends. A success or a conflict whose text is missing may be anything.
bool status_is_enough(int status) {
    return status >= 300 && status != kConflict;
}

}  // namespace

Transfer::Transfer(const Target& target) : target_(target), post_(target.options) {
    curl_easy_setopt(easy(), CURLOPT_WRITEFUNCTION, &Transfer::on_body);
    curl_easy_setopt(easy(), CURLOPT_WRITEDATA, static_cast<void*>(this));
    // With HTTP/2 requests share a connection: the second waits to see whether the first's can be shared.
    if (target.is_https) curl_easy_setopt(easy(), CURLOPT_PIPEWAIT, 1L);
}

Result<void> Transfer::add_headers(const Message& message, const RequestProof& proof) {
    const auto add = [this](std::string_view name, std::string_view value) -> Result<void> {
        if (!post_.add_header(name, value)) return unsendable_header("BAD_REQUEST", name);
        return {};
    };
    TRY(add("Content-Type", message.content_type));
    if (!message.message_id.empty()) TRY(add("Idempotency-Key", message.message_id));
    if (const auto& events = target_.options.events) {
        for (const auto& [name, value] : event_headers(message, *events)) TRY(add(name, value));
    } else {
        for (const auto& [name, value] : message.headers) {
            // These come from data. The operator's own headers below may have any name.
            if (is_trusted_header(name)) return unsendable_header("BAD_REQUEST", name);
            TRY(add(name, value));
        }
    }
    for (const auto& [name, value] : target_.options.headers) TRY(add(name, value));
    if (!proof.token.empty()) TRY(add("Authorization", fmt::format("Bearer {}", proof.token)));
    if (!proof.signature.empty()) {
        TRY(add("webhook-id", message.message_id));
        TRY(add("webhook-timestamp", proof.timestamp));
        TRY(add("webhook-signature", proof.signature));
    }
    return {};
}

Result<void> Transfer::prepare(const Job& job, const RequestProof& proof) {
    job_ = job;
    // A copy: by the time the answer comes, and may repeat it, another token may have been read.
    token_ = proof.token;
    answer_.clear();
    answer_cut_ = false;
    post_.begin(job.message->body);
    TRY(add_headers(*job.message, proof));
    post_.finish();
    return {};
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
    for (const std::string& secret : target_.secrets) mask(secret);
    return text;
}

Outcome Transfer::outcome(CURLcode code, WallTime now) const {
    // libcurl calls an answer whole that ends within its header, and calls it broken where on_body() ended it.
    const bool answered = post_.header_complete() && (code == CURLE_OK || answer_cut_);
    return answered || status_is_enough(post_.status()) ? outcome_of_answer(now) : outcome_without_answer(code);
}

Outcome Transfer::outcome_of_answer(WallTime now) const {
    const auto& options = target_.options;
    // Before anything else reads it: the detail, the receipt and the answer are stored.
    const std::string body = masked_answer();
    const HttpAnswer answer{post_.status(), body, post_.retry_after()};
    if (options.broker) {
        return classify_broker_answer(answer, answer_cut_, job_.message->message_id, *options.broker, now);
    }
    auto outcome = classify_http_answer(answer, job_.message->message_id, now);
    if (outcome.kind == OutcomeKind::delivered) outcome.receipt = find_receipt(body, options.receipt_fields);
    return outcome;
}

Outcome Transfer::outcome_without_answer(CURLcode code) const {
    const auto& host = target_.host;
    const auto problem = post_.problem(code);
    std::string_view outcome_code = "NETWORK_TIMEOUT";
    std::string detail;
    switch (code) {
        case CURLE_OPERATION_TIMEDOUT:
            detail = post_.request_began() ? fmt::format("{} did not answer completely within {} s", host,
                                                         to_seconds(target_.options.timeout))
                                           : fmt::format("no connection to {} in time: {}", host, problem);
            break;
        case CURLE_PEER_FAILED_VERIFICATION:
            detail = fmt::format("the TLS certificate of {} was not accepted: {}; nothing was sent", host, problem);
            break;
        case CURLE_WEIRD_SERVER_REPLY:
        case CURLE_UNSUPPORTED_PROTOCOL:  // "HTTP/0.9": an answer without a status line
            outcome_code = "UNKNOWN";
            detail = fmt::format("the answer of {} is not HTTP: {}", host, problem);
            break;
        default:
            detail = fmt::format("{}: {}", host, problem);
            if (const int status = post_.status(); status != 0) {
                outcome_code = "UNKNOWN";
                detail = fmt::format("the answer of {} (HTTP {}) broke off: {}", host, status, problem);
            }
    }
    // Once a byte has left, the receiver may have acted on the request: nothing says how much of it arrived.
    const auto kind = post_.request_began() ? OutcomeKind::ambiguous : OutcomeKind::retryable;
    return failed_attempt(kind, outcome_code, detail);
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

}  // namespace deliverd::sink
