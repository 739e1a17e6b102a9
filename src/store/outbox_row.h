// From a row of an outbox to its message, and from a settlement to the row: the same bytes in every store.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "message/message.h"
#include "store/orders.h"
#include "store/row_queue.h"

namespace deliverd::store {

/// The longest last_error that is stored.
inline constexpr std::size_t kMaxStoredErrorBytes = 4096;

/// `text` as both databases can store it: no NUL bytes, valid UTF-8.
[[nodiscard]] std::string storable(std::string_view text);

// --- messages ------------------------------------------------------------------------------------------------------

struct MemoryFields {
    std::int64_t outbox_id = 0;
    std::optional<std::int64_t> item_id;
    std::string_view target_space;
    std::string_view payload_md;
    std::string_view payload_sha;
    std::int32_t retry_count = 0;
};

/// Body: {"outbox_id","item_id","target_space","payload_md","payload_sha"} in this order. The stores pass UTF-8; bytes
/// that are not become U+FFFD, so that the body is always JSON.
[[nodiscard]] Message memory_message(const MemoryFields& row);

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

// --- rows of either database: a `row` is as for letter_columns.h ----------------------------------------------------

template <typename Row>
[[nodiscard]] Order order_at(const Row& row) {
    Order order;
    row.read(order.id, order.idempotency_key, order.request_json, order.request_digest, order.trace_id, order.status,
             order.retry_count, order.next_attempt_at, order.last_error, order.last_error_detail, order.in_doubt,
             order.broker_order_id, order.created_at, order.updated_at);
    return order;
}

template <typename Row>
[[nodiscard]] Order order_and_ledger_at(const Row& row) {
    Order order = order_at(row);
    row.read_from(14, order.result_digest, order.result_json);  // behind the columns of order_at()
    return order;
}

template <typename Row>
[[nodiscard]] AuditLine order_audit_at(const Row& row) {
    AuditLine line;
    row.read(line.at, line.reason, line.status_from, line.status_to, line.retry_count, line.last_error, line.detail,
             line.broker_order_id, line.worker, line.actor);
    return line;
}

/// Its columns begin with `column`.
template <typename Row>
[[nodiscard]] RowState row_state_at(const Row& row, int column = 0) {
    RowState state;
    row.read_from(column, state.status, state.failures, state.locked_by, state.last_error);
    state.phase = phase_of(state.status);
    return state;
}

// --- settlements ---------------------------------------------------------------------------------------------------

/// Indexes of `items` in order of their keys, each key once: the first item that has it.
template <typename Items, typename Key>
[[nodiscard]] std::vector<std::size_t> firsts_by_key(const Items& items, Key key) {
    std::vector<std::size_t> firsts(std::size(items));
    std::iota(firsts.begin(), firsts.end(), std::size_t{0});
    const auto key_of = [&](std::size_t index) { return std::invoke(key, items[index]); };
    std::ranges::stable_sort(firsts, {}, key_of);
    const auto rest = std::ranges::unique(firsts, {}, key_of);
    firsts.erase(rest.begin(), rest.end());
    return firsts;
}

/// Indexes of the settlements to send, each id once: a second settlement of a row in one batch finds it settled
/// already. In order of their ids, so that overlapping batches lock rows in one order.
[[nodiscard]] std::vector<std::size_t> settle_order(std::span<const Settlement> settlements);

/// What the settlement leaves in last_error.
[[nodiscard]] std::optional<std::string> settle_note(const Settlement& settlement);

/// The longest time that is stored, about 31 years: it keeps the arithmetic on times finite.
inline constexpr double kMaxDelaySeconds = 1e9;

/// The settlement's delay, within 0 and kMaxDelaySeconds.
[[nodiscard]] double settle_delay_seconds(const Settlement& settlement);

/// outbox_audit.reason.
[[nodiscard]] std::string_view settle_reason(SettleKind kind);

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
