// The port through which orders come in and are read back. They leave through store/row_queue.h.
//
// Guarantees every implementation gives (store/conformance/orders.h checks them):
//   - an idempotency key has at most one row in outbox_orders, however many callers post it at once. The row remembers
//     its key permanently. The ledger only keeps the broker's answer for its time to live: if it alone guarded a key, a
//     repetition after that time would be a second order. So it may be purged at any time;
//   - the broker's answer is kept as text and given back byte for byte. As jsonb its numbers would change and its
//     digest would no longer fit, and the body of a 409 need not be JSON;
//   - order row, ledger row and audit line are one transaction, on the disk before accept() answers;
//   - every post of one key gets the same id; a post whose digest differs from the row's is a conflict and changes
//     nothing.
//
// Threads, blocking and failure: as in store/row_queue.h. After an `ambiguous` failure the orders may be stored:
// accepting them again answers `known` for those that were.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "deliverd/result.h"

namespace deliverd::store {

/// An order that passed validation (orders/order_request.h).
struct NewOrder {
    std::string idempotency_key;
    std::string request_json;  // one JSON object without NUL characters: what the broker gets, byte for byte
    std::string request_digest;
    std::string trace_id;
    std::string actor;  // outbox_audit.actor: who posted it
};

/// A row of outbox_orders with what the ledger has on it.
struct Order {
    std::int64_t id = 0;
    std::string idempotency_key;
    std::string request_json;  // as posted
    std::string request_digest;
    std::string trace_id;
    std::string status;  // queued | sending | sent | failed | dead
    std::int32_t retry_count = 0;
    WallTime next_attempt_at{};
    std::optional<std::string> last_error;         // a code: BROKER_5XX
    std::optional<std::string> last_error_detail;  // the same for people
    bool in_doubt = false;                         // the broker may have it, although no answer says so
    std::optional<std::string> broker_order_id;
    std::optional<std::string> result_digest;  // these two as long as the ledger keeps them
    std::optional<std::string> result_json;
    WallTime created_at{};
    WallTime updated_at{};
};

/// A line of outbox_audit.
struct AuditLine {
    WallTime at{};
    std::string reason;
    std::optional<std::string> status_from;
    std::optional<std::string> status_to;
    std::optional<std::int32_t> retry_count;
    std::optional<std::string> last_error;
    std::optional<std::string> detail;
    std::optional<std::string> broker_order_id;
    std::optional<std::string> worker;
    std::optional<std::string> actor;
};

struct OrderDetail {
    Order order;
    std::vector<AuditLine> audit;  // oldest first, the newest kMaxAuditLines
};

inline constexpr std::int32_t kMaxAuditLines = 1000;

enum class AcceptKind {
    fresh,     // stored now
    known,     // was there, with the same digest
    conflict,  // was there, with another digest
};

struct AcceptAnswer {
    AcceptKind kind = AcceptKind::fresh;
    Order order;  // as the database has it; for `fresh` without request_json and next_attempt_at
};

struct OrderQuery {
    std::optional<std::string> status;
    std::optional<std::int64_t> below_id;  // for the next page
    std::int32_t limit = 100;
};

class Orders {
public:
    virtual ~Orders() = default;

    /// All in one transaction; one answer per order, in the same order. Two orders with the same key in one call have
    /// the effect of two calls. If the database cannot hold one of them, the whole call is refused (permanent): try the
    /// others without it.
    virtual Result<std::vector<AcceptAnswer>> accept(std::span<const NewOrder> orders) = 0;

    virtual Result<std::optional<OrderDetail>> find(std::string_view idempotency_key) = 0;

    /// Newest first, without the ledger's columns.
    virtual Result<std::vector<Order>> list(const OrderQuery& query) = 0;
};

struct OrdersOptions {
    Duration ledger_ttl = std::chrono::hours(48);  // from the acceptance, and again from the broker's answer
};

}  // namespace deliverd::store
