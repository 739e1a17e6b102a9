#include "message/http_answer.h"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <cstdint>
#include <string>

#include "base/text.h"
#include "message/http_date.h"

namespace deliverd {
namespace {

char ascii_lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// Capitals do not matter: receivers write "Already processed" and ALREADY_PROCESSED.
bool contains_ignoring_case(std::string_view text, std::string_view lower) {
    return std::search(text.begin(), text.end(), lower.begin(), lower.end(),
                       [](char a, char b) { return ascii_lower(a) == b; }) != text.end();
}

bool equals_ignoring_case(std::string_view text, std::string_view lower) {
    return text.size() == lower.size() && contains_ignoring_case(text, lower);
}

enum class Conflict { processed, other_key, unreadable, plain };

/// What a 409 says. Taking a message for delivered that was not would lose it, so every doubt is resolved
/// towards sending again.
Conflict read_conflict(std::string_view body, std::string_view message_id) {
    const bool says_so = contains_ignoring_case(body, "already processed");
    const std::size_t first = body.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos || body[first] != '{') return says_so ? Conflict::processed : Conflict::plain;

    boost::system::error_code error;
    const boost::json::value parsed = boost::json::parse(boost::json::string_view(body.data(), body.size()), error);
    if (error || !parsed.is_object()) return says_so ? Conflict::unreadable : Conflict::plain;
    const boost::json::object& object = parsed.get_object();
    const auto is_processed = [&object](std::string_view field) {
        const boost::json::value* value = object.if_contains(field);
        return value != nullptr && value->is_string() && equals_ignoring_case(value->get_string(), "already_processed");
    };
    if (!says_so && !is_processed("code") && !is_processed("status")) return Conflict::plain;

    const boost::json::value* key = object.if_contains("idempotency_key");
    if (key == nullptr || key->is_null()) return Conflict::processed;
    const bool ours = key->is_string() && std::string_view(key->get_string()) == message_id;
    return ours ? Conflict::processed : Conflict::other_key;
}

std::string describe(const HttpAnswer& answer) {
    // Only so much of the body as can show: one_line grows a byte to three at most.
    const std::string body = one_line(answer.body.substr(0, kMaxDetailBytes));
    std::string line = "HTTP " + std::to_string(answer.status);
    if (body.find_first_not_of(' ') != std::string::npos) line += ": " + body;
    return shorten(line, kMaxDetailBytes);
}

struct Verdict {
    OutcomeKind kind;
    std::string_view code;
};

Verdict verdict_on(const HttpAnswer& answer, std::string_view message_id) {
    const int status = answer.status;
    if (status >= 200 && status <= 299) return {OutcomeKind::delivered, ""};
    if (status >= 500 && status <= 599) return {OutcomeKind::retryable, "BROKER_5XX"};
    if (status < 400 || status > 499) return {OutcomeKind::retryable, "UNKNOWN"};
    switch (status) {
        case 429:
            return {OutcomeKind::retryable, "RATE_LIMITED"};
        case 400:
        case 422:
            return {OutcomeKind::permanent, "BAD_REQUEST"};
        case 401:
        case 403:
            return {OutcomeKind::permanent, "UNAUTHORIZED"};
        case 409:
            switch (read_conflict(answer.body, message_id)) {
                case Conflict::processed:
                    return {OutcomeKind::delivered, "CONFLICT_PROCESSED"};
                case Conflict::other_key:
                case Conflict::unreadable:
                    return {OutcomeKind::retryable, "UNKNOWN"};
                case Conflict::plain:
                    break;
            }
            [[fallthrough]];
        default:
            return {OutcomeKind::permanent, "REJECTED"};
    }
}

}  // namespace

Outcome classify_http_answer(const HttpAnswer& answer, std::string_view message_id, WallTime now) {
    const Verdict verdict = verdict_on(answer, message_id);
    Outcome outcome;
    outcome.kind = verdict.kind;
    outcome.code = verdict.code;
    if (!verdict.code.empty()) outcome.detail = describe(answer);
    if (verdict.kind == OutcomeKind::retryable) outcome.retry_after = parse_retry_after(answer.retry_after, now);
    return outcome;
}

std::optional<Duration> parse_retry_after(std::string_view value, WallTime now) {
    const std::size_t first = value.find_first_not_of(" \t");
    if (first == std::string_view::npos) return std::nullopt;
    value = value.substr(first, value.find_last_not_of(" \t") + 1 - first);

    if (value.find_first_not_of("0123456789") == std::string_view::npos) {
        constexpr std::int64_t kMost = std::chrono::seconds(kLongestRetryAfter).count();
        std::int64_t seconds = 0;
        const auto read = std::from_chars(value.data(), value.data() + value.size(), seconds);
        if (read.ec != std::errc()) seconds = kMost;  // digits only, so it was too many of them
        return std::chrono::seconds(std::min(seconds, kMost));
    }
    const auto date = parse_http_date(value, now);
    if (!date || *date < now) return std::nullopt;
    return std::min<std::chrono::microseconds>(*date - now, kLongestRetryAfter);  // nanoseconds would overflow
}

}  // namespace deliverd
