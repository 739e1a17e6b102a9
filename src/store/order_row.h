// From a row of outbox_orders to its message, and from a settlement to the row: the same bytes in every store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "message/message.h"
#include "store/row_queue.h"

namespace deliverd::store {

struct OrderFields {
    std::int64_t id = 0;
    std::string_view idempotency_key;
    std::string_view request;  // what the broker gets
    std::string_view trace_id;
    std::int32_t retry_count = 0;
};

/// The idempotency key is the message id and the key. A trace id that can be a header goes into X-Trace-Id; any other
/// is left out, because no order should die of its trace.
[[nodiscard]] Message order_message(const OrderFields& row);

/// What a settlement leaves in order and ledger, as both databases can store it.
struct OrderSettled {
    std::optional<std::string> last_error;         // the code
    std::optional<std::string> last_error_detail;  // Settlement::error
    std::optional<std::string> broker_order_id;    // these three only when it was sent
    std::optional<std::string> result_digest;
    std::optional<std::string> result_json;
};

[[nodiscard]] OrderSettled order_settled(const Settlement& settlement);

/// outbox_audit.reason. Orders are not compared with each other, so a duplicate is a success like any other.
[[nodiscard]] std::string_view order_settle_reason(SettleKind kind);

}  // namespace deliverd::store
