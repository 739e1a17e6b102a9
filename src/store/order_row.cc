#include "store/order_row.h"

#include <algorithm>

#include "base/text.h"
#include "store/memory_message.h"
#include "store/settle_batch.h"

namespace deliverd::store {
namespace {

std::optional<std::string> unless_empty(std::string text) {
    if (text.empty()) return std::nullopt;
    return text;
}

/// The intake accepts only trace ids that can be a header; a row inserted by hand may hold anything.
bool is_header_value(std::string_view text) {
    return !text.empty() &&
           std::none_of(text.begin(), text.end(), [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 127; });
}

}  // namespace

Message order_message(const OrderFields& row) {
    Message message;
    message.id = row.id;
    message.message_id = row.idempotency_key;
    message.key = row.idempotency_key;
    message.body = row.request;
    message.content_type = "application/json";
    if (is_header_value(row.trace_id)) message.headers.emplace_back("X-Trace-Id", row.trace_id);
    message.failures = row.retry_count;
    return message;
}

OrderSettled order_settled(const Settlement& settlement) {
    OrderSettled settled;
    settled.last_error = unless_empty(storable(settlement.code));
    settled.last_error_detail = unless_empty(shorten(storable(settlement.error), kMaxStoredErrorBytes));
    if (failed(settlement)) return settled;
    if (settlement.receipt) settled.broker_order_id = storable(*settlement.receipt);
    if (settlement.answer) {
        settled.result_digest = storable(settlement.answer->digest);
        settled.result_json = storable(settlement.answer->body);
    }
    return settled;
}

std::string_view order_settle_reason(SettleKind kind) {
    return settle_reason(kind == SettleKind::duplicate ? SettleKind::sent : kind);
}

}  // namespace deliverd::store
