#include "sink/http/answer.h"

#include <fmt/format.h>

#include "base/text.h"
#include "message/http_answer.h"

namespace deliverd::sink {

namespace {

constexpr int kConflict = 409;

Outcome failure(OutcomeKind kind, std::string_view code, std::string_view detail) {
    return Outcome{kind, std::string(code), shorten(one_line(detail), kMaxDetailBytes), std::nullopt, std::nullopt};
}

Outcome from_answer(const Exchange& exchange, std::string_view message_id, const AnswerRules& rules, WallTime now) {
    const HttpAnswer answer{exchange.status, exchange.body, exchange.retry_after};
    if (rules.broker) return classify_broker_answer(answer, exchange.body_cut, message_id, *rules.broker, now);
    auto outcome = classify_http_answer(answer, message_id, now);
    if (outcome.kind == OutcomeKind::delivered) outcome.receipt = find_receipt(exchange.body, rules.receipt_fields);
    return outcome;
}

/// A refusal is one however its body ends. A success or a conflict whose text is missing may be anything.
bool status_is_enough(int status) {
    return status >= 300 && status != kConflict;
}

std::string describe(const Exchange& exchange) {
    const auto seconds = to_seconds(exchange.timeout);
    switch (exchange.ending) {
        case Ending::timed_out:
            return exchange.request_began
                       ? fmt::format("{} gave no whole answer within {} s", exchange.host, seconds)
                       : fmt::format("no connection to {} in time: {}", exchange.host, exchange.problem);
        case Ending::not_accepted:
            return fmt::format("the TLS certificate of {} was not accepted: {}; nothing was sent", exchange.host,
                               exchange.problem);
        case Ending::broken_off:
            return fmt::format("the answer of {} (HTTP {}) broke off: {}", exchange.host, exchange.status,
                               exchange.problem);
        case Ending::unreadable:
            return fmt::format("the answer of {} is not HTTP: {}", exchange.host, exchange.problem);
        case Ending::answered:
        case Ending::lost:
        case Ending::failed:
            break;
    }
    return fmt::format("{}: {}", exchange.host, exchange.problem);
}

}  // namespace

Outcome outcome_of(const Exchange& exchange, std::string_view message_id, const AnswerRules& rules, WallTime now) {
    if (exchange.ending == Ending::answered || (exchange.status != 0 && status_is_enough(exchange.status))) {
        return from_answer(exchange, message_id, rules, now);
    }
    const auto kind = exchange.request_began ? OutcomeKind::ambiguous : OutcomeKind::retryable;
    const bool answer_seen = exchange.ending == Ending::broken_off || exchange.ending == Ending::unreadable;
    return failure(kind, answer_seen ? "UNKNOWN" : "NETWORK_TIMEOUT", describe(exchange));
}

}  // namespace deliverd::sink
