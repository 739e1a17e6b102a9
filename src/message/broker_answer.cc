#include "message/broker_answer.h"

#include <algorithm>
#include <utility>

#include "base/canonical_json.h"
#include "base/sha256.h"
#include "base/text.h"
#include "message/answer_parts.h"
#include "message/answer_scan.h"

namespace deliverd {
namespace {

const std::vector<std::string>& receipt_fields() {
    static const std::vector<std::string> fields{"broker_order_id", "id"};
    return fields;
}

Outcome unknown(const HttpAnswer& answer, std::string_view remark) {
    Outcome outcome;
    outcome.kind = OutcomeKind::ambiguous;
    outcome.code = "UNKNOWN";
    outcome.detail = describe_answer(answer, remark);
    return outcome;
}

std::string digest_of(std::string_view body) {
    const Result<std::string> canonical = canonical_json(body);
    return "sha256:" + sha256_hex(canonical ? std::string_view(*canonical) : body);
}

Outcome classify_success(const HttpAnswer& answer, std::string_view idempotency_key) {
    const std::optional<boost::json::object> object = parse_json_object(answer.body);
    if (!object) return unknown(answer, ", but its body is not a JSON object");
    const KeyMentions key = scan_json(answer.body, idempotency_key, {}).value_or(AnswerScan{}).at_top;
    const bool written_differently = key.ours && key.null;
    if (key.another || written_differently) return unknown(answer, ", but with another idempotency_key than ours");
    if (!key.ours) return unknown(answer, ", but without our idempotency_key");
    Outcome outcome;
    outcome.kind = OutcomeKind::delivered;
    outcome.receipt = find_receipt(*object, receipt_fields());
    outcome.answer = ReceiverAnswer{std::string(answer.body), digest_of(answer.body)};
    return outcome;
}

/// A 409 may be any bytes, and a store takes only text.
std::string as_text(std::string_view body) {
    std::string text = valid_utf8(body);
    std::replace(text.begin(), text.end(), '\0', ' ');
    return text;
}

}  // namespace

Outcome classify_broker_answer(const HttpAnswer& answer, bool body_cut, std::string_view idempotency_key,
                               const ProcessedMatch& match, WallTime now) {
    const bool success = answer.status >= 200 && answer.status <= 299;
    const bool conflict = answer.status == 409;
    if (body_cut && (success || conflict)) {
        return unknown(answer, ", but the answer is longer than max_answer_bytes: raise it");
    }
    if (success) return classify_success(answer, idempotency_key);
    if (!conflict) return classify_status(answer, Conflict::plain, now);
    Outcome outcome = classify_status(answer, read_conflict(answer.body, idempotency_key, match), now);
    if (outcome.kind == OutcomeKind::delivered) {
        outcome.receipt = find_receipt(answer.body, receipt_fields());
        outcome.answer = ReceiverAnswer{as_text(answer.body), std::string(kDigestFromConflict)};
    }
    return outcome;
}

}  // namespace deliverd
