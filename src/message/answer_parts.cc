#include "message/answer_parts.h"

#include <algorithm>

#include "base/json_reader.h"
#include "base/text.h"
#include "message/answer_scan.h"
#include "message/retry_after.h"

namespace deliverd {
namespace {

constexpr std::size_t kMaxReceiptBytes = 512;

/// A text may begin with a bracket as well: "[broker] …".
bool is_meant_as_json(std::string_view body) {
    constexpr std::string_view kSpace = " \t\r\n";
    const std::size_t first = body.find_first_not_of(kSpace);
    if (first == std::string_view::npos) return false;
    if (body[first] != '[') return body[first] == '{';
    const std::size_t second = body.find_first_not_of(kSpace, first + 1);
    return second != std::string_view::npos && std::string_view("{[\"").find(body[second]) != std::string_view::npos;
}

/// Bytes a store could not keep or a terminal would trip over make no receipt.
bool is_usable(std::string_view receipt) {
    return !receipt.empty() && receipt.size() <= kMaxReceiptBytes && !find_invalid_utf8(receipt) &&
           std::none_of(receipt.begin(), receipt.end(), [](char c) { return c >= 0 && c < ' '; });
}

struct Verdict {
    OutcomeKind kind;
    std::string_view code;
};

Verdict verdict_on_conflict(Conflict conflict) {
    switch (conflict) {
        case Conflict::processed:
            return {OutcomeKind::delivered, "CONFLICT_PROCESSED"};
        case Conflict::doubtful:
        case Conflict::unclear:
            return {OutcomeKind::retryable, "UNKNOWN"};
        case Conflict::plain:
            break;
    }
    return {OutcomeKind::permanent, "REJECTED"};
}

Verdict verdict_on(int status, Conflict conflict) {
    if (status >= 200 && status <= 299) return {OutcomeKind::delivered, ""};
    if (status >= 500 && status <= 599) return {OutcomeKind::retryable, "BROKER_5XX"};
    if (status < 400 || status > 499) return {OutcomeKind::retryable, "UNKNOWN"};
    switch (status) {
        case 429:
            return {OutcomeKind::retryable, kRateLimited};
        case 400:
        case 422:
            return {OutcomeKind::permanent, "BAD_REQUEST"};
        case 401:
        case 403:
            return {OutcomeKind::permanent, "UNAUTHORIZED"};
        case 409:
            return verdict_on_conflict(conflict);
        default:
            return {OutcomeKind::permanent, "REJECTED"};
    }
}

}  // namespace

std::optional<boost::json::object> parse_json_object(std::string_view body) {
    boost::json::parse_options options;
    options.max_depth = kMaxJsonDepth;
    boost::system::error_code error;
    boost::json::value parsed =
        boost::json::parse(boost::json::string_view(body.data(), body.size()), error, {}, options);
    if (error || !parsed.is_object()) return std::nullopt;
    return std::move(parsed.get_object());
}

Conflict read_conflict(std::string_view body, std::string_view our_key, const ProcessedMatch& match) {
    const std::optional<AnswerScan> json = scan_json(body, our_key, match);
    if (json) {
        if (json->anywhere.another) return json->says_processed ? Conflict::doubtful : Conflict::unclear;
        return json->says_processed ? Conflict::processed : Conflict::plain;
    }
    const bool says_so = says_processed(body, match);
    if (is_meant_as_json(body)) return says_so ? Conflict::doubtful : Conflict::unclear;
    return says_so ? Conflict::processed : Conflict::plain;
}

Outcome classify_status(const HttpAnswer& answer, Conflict conflict, WallTime now) {
    const Verdict verdict = verdict_on(answer.status, conflict);
    Outcome outcome;
    outcome.kind = verdict.kind;
    outcome.code = verdict.code;
    if (!verdict.code.empty()) outcome.detail = describe_answer(answer);
    if (verdict.kind == OutcomeKind::retryable) outcome.retry_after = parse_retry_after(answer.retry_after, now);
    return outcome;
}

std::string describe_answer(const HttpAnswer& answer, std::string_view remark) {
    // Only so much of the body as can show: one_line grows a byte to three at most.
    const std::string body = one_line(answer.body.substr(0, kMaxDetailBytes));
    std::string line = "HTTP " + std::to_string(answer.status);
    line += remark;
    if (body.find_first_not_of(' ') != std::string::npos) line += ": " + body;
    return shorten(line, kMaxDetailBytes);
}

std::optional<std::string> find_receipt(const boost::json::object& object, const std::vector<std::string>& fields) {
    for (const std::string& field : fields) {
        const boost::json::value* found = object.if_contains(field);
        if (found == nullptr || !(found->is_string() || found->is_number())) continue;
        std::string receipt = found->is_string() ? std::string(found->get_string()) : boost::json::serialize(*found);
        if (is_usable(receipt)) return receipt;
    }
    return std::nullopt;
}

std::optional<std::string> find_receipt(std::string_view body, const std::vector<std::string>& fields) {
    if (fields.empty()) return std::nullopt;
    const std::optional<boost::json::object> object = parse_json_object(body);
    return object ? find_receipt(*object, fields) : std::nullopt;
}

}  // namespace deliverd
