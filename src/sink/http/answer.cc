#include "sink/http/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "base/text.h"
#include "message/http_answer.h"

namespace deliverd::sink {

namespace {

constexpr int kConflict = 409;

Outcome failure(OutcomeKind kind, std::string_view code, std::string_view detail) {
    return Outcome{kind, std::string(code), shorten(one_line(detail), kMaxDetailBytes), std::nullopt, std::nullopt};
}

Outcome from_answer(const Exchange& exchange, std::string_view message_id, const std::vector<std::string>& fields,
                    WallTime now) {
    auto outcome = classify_http_answer({exchange.status, exchange.body, exchange.retry_after}, message_id, now);
    if (outcome.kind == OutcomeKind::delivered) outcome.receipt = find_receipt(exchange.body, fields);
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

/// Bytes a store could not keep or a terminal would trip over make no receipt.
bool is_usable(std::string_view receipt) {
    return !receipt.empty() && receipt.size() <= kMaxReceiptBytes && !find_invalid_utf8(receipt) &&
           std::none_of(receipt.begin(), receipt.end(), [](char c) { return c >= 0 && c < ' '; });
}

}  // namespace

std::optional<std::string> find_receipt(std::string_view body, const std::vector<std::string>& fields) {
    if (fields.empty()) return std::nullopt;
    boost::system::error_code error;
    const auto value = boost::json::parse({body.data(), body.size()}, error);
    if (error || !value.is_object()) return std::nullopt;
    for (const auto& field : fields) {
        const auto* found = value.get_object().if_contains(field);
        if (found == nullptr || !(found->is_string() || found->is_number())) continue;
        std::string receipt = found->is_string() ? std::string(found->get_string()) : boost::json::serialize(*found);
        if (is_usable(receipt)) return receipt;
    }
    return std::nullopt;
}

Outcome outcome_of(const Exchange& exchange, std::string_view message_id,
                   const std::vector<std::string>& receipt_fields, WallTime now) {
    if (exchange.ending == Ending::answered || (exchange.status != 0 && status_is_enough(exchange.status))) {
        return from_answer(exchange, message_id, receipt_fields, now);
    }
    const auto kind = exchange.request_began ? OutcomeKind::ambiguous : OutcomeKind::retryable;
    const bool answer_seen = exchange.ending == Ending::broken_off || exchange.ending == Ending::unreadable;
    return failure(kind, answer_seen ? "UNKNOWN" : "NETWORK_TIMEOUT", describe(exchange));
}

}  // namespace deliverd::sink
