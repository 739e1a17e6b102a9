#include "store/sqlite/queues/orders.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/failpoint.h"
#include "base/text.h"
#include "base/try.h"
#include "client/lease_arguments.h"
#include "client/sql_values.h"
#include "store/sqlite/queues/statements.h"

namespace deliverd::store::sqlite {
namespace {

Order order_at(const SqliteStatement& row) {
    Order order;
    row.read(order.id, order.idempotency_key, order.request_json, order.request_digest, order.trace_id, order.status,
             order.retry_count, order.next_attempt_at, order.last_error, order.last_error_detail, order.in_doubt,
             order.broker_order_id, order.created_at, order.updated_at);
    return order;
}

Order order_and_ledger_at(const SqliteStatement& row) {
    Order order = order_at(row);
    row.read_from(14, order.result_digest, order.result_json);
    return order;
}

AuditLine audit_line_at(const SqliteStatement& row) {
    AuditLine line;
    row.read(line.at, line.reason, line.status_from, line.status_to, line.retry_count, line.last_error, line.detail,
             line.broker_order_id, line.worker, line.actor);
    return line;
}

Result<void> check_order(const NewOrder& order) {
    if (order.idempotency_key.empty()) {
        return bad_argument("idempotency_key is empty: every order needs a key of its own");
    }
    TRY(client::check_text("idempotency_key", order.idempotency_key));
    TRY(client::check_text("request_json", order.request_json));
    TRY(client::check_text("request_digest", order.request_digest));
    TRY(client::check_text("trace_id", order.trace_id));
    return client::check_text("actor", order.actor);
}

/// The order as stored now; none when its key is known.
Result<std::optional<Order>> insert_order(Handle& handle, const NewOrder& fresh) {
    const auto stored_at = [&](const SqliteStatement& row) {
        Order order;
        order.idempotency_key = fresh.idempotency_key;
        order.request_digest = fresh.request_digest;
        order.trace_id = fresh.trace_id;
        row.read(order.id, order.status, order.created_at, order.updated_at);
        return order;
    };
    return handle.one(queues::sql::accept_order, stored_at, fresh.idempotency_key, fresh.request_json,
                      fresh.request_digest, fresh.trace_id);
}

}  // namespace

Result<void> write_ledger(Handle& handle, std::int64_t order_id, Duration ttl,
                          const std::optional<std::string>& result_digest,
                          const std::optional<std::string>& result_json) {
    return handle.run(queues::sql::write_ledger, order_id, client::time_ahead(ttl), result_digest, result_json);
}

Result<void> audit_orders(Handle& handle, std::span<const std::int64_t> ids, const OrderStep& step) {
    if (ids.empty()) return {};
    return handle.run(queues::sql::audit_orders, client::json_ids(ids), step.reason, step.status_from, step.worker,
                      step.actor);
}

Result<AcceptAnswer> SqliteOrders::accept_one(Handle& handle, const NewOrder& order) const {
    TRY_ASSIGN(auto stored, insert_order(handle, order));
    if (stored) {
        const std::int64_t id = stored->id;
        TRY(write_ledger(handle, id, options_.ledger_ttl, std::nullopt, std::nullopt));
        const OrderStep accepted{"order_accepted", std::nullopt, std::nullopt, order.actor};
        TRY(audit_orders(handle, std::span(&id, 1), accepted));
        return AcceptAnswer{AcceptKind::fresh, std::move(*stored)};
    }
    TRY_ASSIGN(auto known, handle.one(queues::sql::find_order, &order_and_ledger_at, order.idempotency_key));
    if (!known) return permanent(codes::kDbError, "the table outbox_orders refuses a key it does not have");
    const bool same = known->request_digest == order.request_digest;
    return AcceptAnswer{same ? AcceptKind::known : AcceptKind::conflict, std::move(*known)};
}

Result<std::vector<AcceptAnswer>> SqliteOrders::accept(std::span<const NewOrder> orders) {
    using Answers = std::vector<AcceptAnswer>;
    for (const NewOrder& order : orders) {
        TRY(check_order(order));
    }
    if (orders.empty()) return Answers{};
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Answers> {
        Answers answers;
        answers.reserve(orders.size());
        for (const NewOrder& order : orders) {
            TRY_ASSIGN(auto answer, accept_one(handle, order));
            answers.push_back(std::move(answer));
        }
        failpoint("store.during_accept");
        return answers;
    });
}

Result<std::optional<OrderDetail>> SqliteOrders::find(std::string_view idempotency_key) {
    TRY_ASSIGN(auto handle, file_.reader());
    TRY_ASSIGN(const auto moment, Transaction::begin_reading(*handle));
    TRY_ASSIGN(auto order, handle->one(queues::sql::find_order, &order_and_ledger_at, idempotency_key));
    if (!order) return std::nullopt;
    TRY_ASSIGN(auto lines, handle->all(queues::sql::order_audit, &audit_line_at, order->id, kMaxAuditLines));
    std::reverse(lines.begin(), lines.end());
    return OrderDetail{std::move(*order), std::move(lines)};
}

Result<std::vector<Order>> SqliteOrders::list(const OrderQuery& query) {
    TRY(client::check_limit(query.limit));
    TRY_ASSIGN(auto handle, file_.reader());
    return handle->all(query.status == "dead" ? queues::sql::list_dead_orders : queues::sql::list_orders, &order_at,
                       query.status, query.below_id.value_or(std::numeric_limits<std::int64_t>::max()), query.limit);
}

}  // namespace deliverd::store::sqlite
