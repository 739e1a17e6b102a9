#include "message/http_answer.h"

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "base/canonical_json.h"
#include "base/json_reader.h"
#include "base/sha256.h"
#include "base/text.h"

namespace deliverd {
namespace {

// --- what an answer says -------------------------------------------------------------------------------------------

/// "…not ", with any white space.
bool ends_with_not(std::string_view text) {
    constexpr std::string_view kNot = "not";
    const std::size_t last = text.find_last_not_of(" \t\r\n");
    if (last == std::string_view::npos || last + 1 == text.size() || last + 1 < kNot.size()) return false;
    return equal_ignoring_case(text.substr(last + 1 - kNot.size(), kNot.size()), kNot);
}

/// Whether `text` contains match.text without a "not" before it.
bool says_processed(std::string_view text, const ProcessedMatch& match) {
    // Receivers write "Already processed" and ALREADY_PROCESSED.
    const auto same_letter = [](char a, char b) { return ascii_lower(a) == ascii_lower(b); };
    if (match.text.empty()) return false;
    auto from = text.begin();
    while (true) {
        const auto found = std::search(from, text.end(), match.text.begin(), match.text.end(), same_letter);
        if (found == text.end()) return false;
        if (!ends_with_not(text.substr(0, static_cast<std::size_t>(found - text.begin())))) return true;
        from = found + 1;
    }
}

/// The values of all members `idempotency_key`, repeated members included.
struct KeyMentions {
    bool ours = false;
    bool null = false;
    bool another = false;  // also a value that is not a string
};

struct AnswerScan {
    bool says_processed = false;  // by a field or a text, at any depth
    KeyMentions at_top;           // of the object that the answer is
    KeyMentions anywhere;         // at the top too
};

/// Sees every member as it was written: a parsed object has only the last of those with one name, and a broker that
/// names two keys must not be taken for one that names ours.
class Scanner {
public:
    Scanner(std::string_view our_key, const ProcessedMatch& match) : our_key_(our_key), match_(match) {}

    [[nodiscard]] const AnswerScan& found() const { return found_; }

    Result<void> take(const JsonEvent& event) {
        if (event.token == JsonToken::key) {
            key_ = event.text;
            return {};
        }
        // The end of an object or array comes here too; its key was cleared when it began.
        const bool in_key = key_ == "idempotency_key";
        if (in_key && event.token == JsonToken::string) {
            mention(event, event.text == our_key_ ? &KeyMentions::ours : &KeyMentions::another);
        } else if (in_key) {
            mention(event, event.raw == "null" ? &KeyMentions::null : &KeyMentions::another);
        } else if (says_processed(event.text, match_) || is_match(event.text)) {
            found_.says_processed = true;
        }
        key_.clear();
        return {};
    }

private:
    void mention(const JsonEvent& event, bool KeyMentions::* what) {
        // A 409 may wrap what it says in an error object and is read at any depth. A 2xx has its key at the top.
        found_.anywhere.*what = true;
        if (event.depth == 1) found_.at_top.*what = true;
    }
    [[nodiscard]] bool is_match(std::string_view text) const {
        return !match_.value.empty() && equal_ignoring_case(text, match_.value) &&
               std::ranges::find(match_.fields, key_) != match_.fields.end();
    }

    std::string_view our_key_;
    const ProcessedMatch& match_;
    AnswerScan found_;
    std::string key_;  // of the value that comes next; empty for an element
};

/// None where `body` is not one JSON value, or one nested deeper than kMaxJsonDepth.
std::optional<AnswerScan> scan_json(std::string_view body, std::string_view our_key, const ProcessedMatch& match) {
    Scanner scanner(our_key, match);
    if (!read_json(body, [&scanner](const JsonEvent& event) { return scanner.take(event); })) return std::nullopt;
    return scanner.found();
}

/// A text may begin with a bracket as well: "[broker] …".
bool is_meant_as_json(std::string_view body) {
    constexpr std::string_view kSpace = " \t\r\n";
    const std::size_t first = body.find_first_not_of(kSpace);
    if (first == std::string_view::npos) return false;
    if (body[first] != '[') return body[first] == '{';
    const std::size_t second = body.find_first_not_of(kSpace, first + 1);
    return second != std::string_view::npos && std::string_view("{[\"").find(body[second]) != std::string_view::npos;
}

enum class Conflict {
    processed,  // for our key, or naming none
    doubtful,   // processed, but for another key, or it cannot be read
    unclear,    // does not mention processing, but names another key or is JSON that cannot be read
    plain,      // anything else
};

/// Reads a 409. A message that is wrongly taken as delivered is lost, so every doubt leads to another attempt.
Conflict read_conflict(std::string_view body, std::string_view our_key, const ProcessedMatch& match) {
    const std::optional<AnswerScan> json = scan_json(body, our_key, match);
    const bool says_so = json ? json->says_processed : says_processed(body, match);
    // JSON that cannot be read, or was cut, may name another key than ours.
    const bool in_doubt = json ? json->anywhere.another : is_meant_as_json(body);
    if (in_doubt) return says_so ? Conflict::doubtful : Conflict::unclear;
    return says_so ? Conflict::processed : Conflict::plain;
}

// --- receipts ------------------------------------------------------------------------------------------------------

// A receipt goes into a column, a log line and an API answer. Real ones are ids.
constexpr std::size_t kMaxReceiptBytes = 512;

/// `body` if it is one JSON object; none otherwise, also when it is nested deeper than kMaxJsonDepth.
std::optional<boost::json::object> parse_json_object(std::string_view body) {
    boost::json::parse_options options;
    options.max_depth = kMaxJsonDepth;
    boost::system::error_code error;
    // Where it fails this is null, which is no object.
    boost::json::value parsed =
        boost::json::parse(boost::json::string_view(body.data(), body.size()), error, {}, options);
    if (!parsed.is_object()) return std::nullopt;
    return std::move(parsed.get_object());
}

/// Not bytes that a store cannot keep or that would confuse a terminal. What the parser gives is UTF-8.
bool is_usable(std::string_view receipt) {
    return !receipt.empty() && receipt.size() <= kMaxReceiptBytes &&
           std::ranges::none_of(receipt, [](char c) { return c >= 0 && c < ' '; });
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

// --- outcomes ------------------------------------------------------------------------------------------------------

/// "HTTP 500REMARK: the body" as one line for Outcome::detail.
std::string describe_answer(const HttpAnswer& answer, std::string_view remark = "") {
    // Only so much of the body as can show: one_line grows a byte to three at most.
    const std::string body = one_line(answer.body.substr(0, kMaxDetailBytes));
    std::string line = "HTTP " + std::to_string(answer.status);
    line += remark;
    if (body.find_first_not_of(' ') != std::string::npos) line += ": " + body;
    return shorten(line, kMaxDetailBytes);
}

struct Verdict {
    OutcomeKind kind;
    std::string_view code;
};

/// `conflict` is plain unless the status is 409.
Verdict verdict_on(int status, Conflict conflict) {
    if (status >= 200 && status <= 299) return {OutcomeKind::delivered, ""};
    // Redirects are not followed, because a message goes where the configuration says. People can correct that.
    if (status < 400 || status > 599) return {OutcomeKind::retryable, "UNKNOWN"};
    if (status >= 500) return {OutcomeKind::retryable, "BROKER_5XX"};
    if (status == 429) return {OutcomeKind::retryable, kRateLimited};
    if (status == 400 || status == 422) return {OutcomeKind::permanent, "BAD_REQUEST"};
    if (status == 401 || status == 403) return {OutcomeKind::permanent, "UNAUTHORIZED"};
    if (conflict == Conflict::plain) return {OutcomeKind::permanent, "REJECTED"};
    if (conflict == Conflict::processed) return {OutcomeKind::delivered, "CONFLICT_PROCESSED"};
    return {OutcomeKind::retryable, "UNKNOWN"};
}

/// The outcome by status alone; for a 409, by `conflict`.
Outcome classify_status(const HttpAnswer& answer, Conflict conflict, WallTime now) {
    const Verdict verdict = verdict_on(answer.status, conflict);
    Outcome outcome{.kind = verdict.kind, .code = std::string(verdict.code)};
    if (!verdict.code.empty()) outcome.detail = describe_answer(answer);
    if (verdict.kind == OutcomeKind::retryable) outcome.retry_after = parse_retry_after(answer.retry_after, now);
    return outcome;
}

const std::vector<std::string>& receipt_fields() {
    static const std::vector<std::string> fields{"broker_order_id", "id"};
    return fields;
}

Outcome unknown(const HttpAnswer& answer, std::string_view remark) {
    return {.kind = OutcomeKind::ambiguous, .code = "UNKNOWN", .detail = describe_answer(answer, remark)};
}

std::string digest_of(std::string_view body) {
    const Result<std::string> canonical = canonical_json(body);
    return "sha256:" + sha256_hex(canonical ? std::string_view(*canonical) : body);
}

Outcome classify_success(const HttpAnswer& answer, std::string_view idempotency_key) {
    // A proxy can answer 200 in the broker's place. Only our key shows that the broker itself has the order.
    const std::optional<boost::json::object> object = parse_json_object(answer.body);
    if (!object) return unknown(answer, ", but its body is not a JSON object");
    const KeyMentions key = scan_json(answer.body, idempotency_key, {}).value_or(AnswerScan{}).at_top;
    // `null` beside our key: the answer names two keys, and nobody knows which one the broker means.
    const bool written_differently = key.ours && key.null;
    if (key.another || written_differently) return unknown(answer, ", but with another idempotency_key than ours");
    if (!key.ours) return unknown(answer, ", but without our idempotency_key");
    return {.kind = OutcomeKind::delivered,
            .receipt = find_receipt(*object, receipt_fields()),
            .answer = ReceiverAnswer{std::string(answer.body), digest_of(answer.body)}};
}

/// A 409 may be any bytes, and a store takes only text.
std::string as_text(std::string_view body) {
    std::string text = valid_utf8(body);
    std::replace(text.begin(), text.end(), '\0', ' ');
    return text;
}

}  // namespace

Outcome classify_http_answer(const HttpAnswer& answer, std::string_view message_id, WallTime now) {
    Conflict conflict = Conflict::plain;
    if (answer.status == 409) conflict = read_conflict(answer.body, message_id, ProcessedMatch{});
    // Any receiver's 409 is a refusal unless it speaks of a delivery.
    if (conflict == Conflict::unclear) conflict = Conflict::plain;
    return classify_status(answer, conflict, now);
}

Outcome classify_broker_answer(const HttpAnswer& answer, bool body_cut, std::string_view idempotency_key,
                               const ProcessedMatch& match, WallTime now) {
    const bool success = answer.status >= 200 && answer.status <= 299;
    const bool conflict = answer.status == 409;
    // Only these two are read: our key may stand in the part that was cut.
    if (body_cut && (success || conflict)) {
        return unknown(answer, ", but the answer is longer than max_answer_bytes: raise it");
    }
    if (success) return classify_success(answer, idempotency_key);
    // The body of any other refusal is not read: it cannot mean a delivery.
    if (!conflict) return classify_status(answer, Conflict::plain, now);
    Outcome outcome = classify_status(answer, read_conflict(answer.body, idempotency_key, match), now);
    if (outcome.kind == OutcomeKind::delivered) {
        outcome.receipt = find_receipt(answer.body, receipt_fields());
        // The real answer was lost with the first attempt. Whoever posts the order again gets this one, marked as such.
        outcome.answer = ReceiverAnswer{as_text(answer.body), std::string(kDigestFromConflict)};
    }
    return outcome;
}

std::optional<std::string> find_receipt(std::string_view body, const std::vector<std::string>& fields) {
    if (fields.empty()) return std::nullopt;  // most receivers give none: their answers need not be parsed
    const std::optional<boost::json::object> object = parse_json_object(body);
    return object ? find_receipt(*object, fields) : std::nullopt;
}

}  // namespace deliverd
