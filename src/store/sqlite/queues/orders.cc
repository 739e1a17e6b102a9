// Orders on SQLite: their intake, and the outbox for lanes.
#include <algorithm>
#include <limits>
#include <utility>

#include "base/failpoint.h"
#include "base/try.h"
#include "client/arguments.h"
#include "client/sql_values.h"
#include "store/outbox_row.h"
#include "store/sqlite/queues/outbox_base.h"
#include "store/sqlite/queues/queues.h"
#include "store/sqlite/queues/statements.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::sqlite {
namespace {

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

/// What the broker answered, or nothing yet, and the time from which the ledger may forget it.
Result<void> write_ledger(Handle& handle, std::int64_t order_id, Duration ttl,
                          const std::optional<std::string>& result_digest,
                          const std::optional<std::string>& result_json) {
    return handle.run(queues::sql::write_ledger, order_id, client::time_ahead(ttl), result_digest, result_json);
}

/// One step of some orders, for the audit, which reads from their rows where they are now.
struct OrderStep {
    std::string_view reason;
    std::optional<std::string> status_from;
    std::optional<std::string> worker;
    std::string_view actor;
};

Result<void> audit_orders(Handle& handle, std::span<const std::int64_t> ids, const OrderStep& step) {
    if (ids.empty()) return {};
    return handle.run(queues::sql::audit_orders, client::json_ids(ids), step.reason, step.status_from, step.worker,
                      step.actor);
}

class SqliteOrders final : public Orders {
public:
    SqliteOrders(File& file, const OrdersOptions& options) : file_(file), options_(options) {}

    Result<std::vector<AcceptAnswer>> accept(std::span<const NewOrder> orders) override {
        using Answers = std::vector<AcceptAnswer>;
        // All before the first is written: one that cannot be stored refuses the whole call.
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

    Result<std::optional<OrderDetail>> find(std::string_view idempotency_key) override {
        TRY_ASSIGN(auto handle, file_.reader());
        TRY_ASSIGN(const auto moment, Transaction::begin_reading(*handle));  // order and audit of one snapshot
        TRY_ASSIGN(auto order,
                   handle->one(queues::sql::find_order, &order_and_ledger_at<SqliteStatement>, idempotency_key));
        if (!order) return std::nullopt;
        TRY_ASSIGN(auto lines,
                   handle->all(queues::sql::order_audit, &order_audit_at<SqliteStatement>, order->id, kMaxAuditLines));
        std::reverse(lines.begin(), lines.end());  // read from the newest on, so that the limit cuts the oldest
        return OrderDetail{std::move(*order), std::move(lines)};
    }

    Result<std::vector<Order>> list(const OrderQuery& query) override {
        TRY(client::check_limit(query.limit));
        TRY_ASSIGN(auto handle, file_.reader());
        // Dead orders are few and far between: found by an index of their own, and not by walking over all orders.
        return handle->all(query.status == "dead" ? queues::sql::list_dead_orders : queues::sql::list_orders,
                           &order_at<SqliteStatement>, query.status,
                           query.below_id.value_or(std::numeric_limits<std::int64_t>::max()), query.limit);
    }

private:
    Result<AcceptAnswer> accept_one(Handle& handle, const NewOrder& order) {
        TRY_ASSIGN(auto stored, insert_order(handle, order));
        if (stored) {
            const std::int64_t id = stored->id;
            // An older answer may be left if somebody deleted the order of this key: it is cleared.
            TRY(write_ledger(handle, id, options_.ledger_ttl, std::nullopt, std::nullopt));
            const OrderStep accepted{"order_accepted", std::nullopt, std::nullopt, order.actor};
            TRY(audit_orders(handle, std::span(&id, 1), accepted));
            return AcceptAnswer{AcceptKind::fresh, std::move(*stored)};
        }
        TRY_ASSIGN(auto known,
                   handle.one(queues::sql::find_order, &order_and_ledger_at<SqliteStatement>, order.idempotency_key));
        // Only another unique index, which somebody added, can refuse a key that is not there.
        if (!known) return permanent(codes::kDbError, "the table outbox_orders refuses a key it does not have");
        const bool same = known->request_digest == order.request_digest;
        return AcceptAnswer{same ? AcceptKind::known : AcceptKind::conflict, std::move(*known)};
    }

    File& file_;
    const OrdersOptions options_;
};

OrderStep step_of(std::string_view reason, const char* status_from, std::string_view worker_id) {
    return {reason, status_from, std::string(worker_id), worker_id};
}

TakenRow taken_order_at(const SqliteStatement& row) {
    std::int64_t id = 0;
    std::string key;
    std::string request;
    std::string trace_id;
    std::int32_t retry_count = 0;
    WallTime created_at{};
    WallTime claimed_at{};
    TakenRow taken;
    row.read(id, key, request, trace_id, retry_count, taken.due_at, created_at, claimed_at);
    taken.claimed.message = order_message({id, key, request, trace_id, retry_count});
    taken.unsendable = unsendable_text({{"idempotency_key", key}, {"request_json", request}, {"trace_id", trace_id}});
    // A time that cannot be read is the beginning of time: no age follows from it.
    if (created_at != WallTime{}) {
        taken.claimed.age_seconds = std::chrono::duration<double>(claimed_at - created_at).count();
    }
    return taken;
}

class OrderQueue final : public OutboxBase {
public:
    OrderQueue(File& file, const OrdersOptions& options, std::string lane)
        : OutboxBase(file, {.renew = queues::sql::renew_orders,
                            .release = queues::sql::release_orders,
                            .audit_note = queues::sql::note_order,
                            .row_state = queues::sql::order_state,
                            .lag = queues::sql::order_lag,
                            .counts = queues::sql::order_counts}),
          options_(options),
          lane_(std::move(lane)) {}

    Result<std::int64_t> rescue(std::string_view worker_id, Duration stuck_for) override {
        TRY(client::check_worker(worker_id));
        TRY(check_upkeep_span("stuck_for", stuck_for));
        return in_transaction(file_, Durability::relaxed, [&](Handle& handle) -> Result<std::int64_t> {
            TRY_ASSIGN(const auto ids,
                       handle.values<std::int64_t>(queues::sql::rescue_orders, client::time_ago(stuck_for)));
            TRY(audit_orders(handle, ids, step_of("outbox_stuck", "sending", worker_id)));
            return static_cast<std::int64_t>(ids.size());
        });
    }

private:
    Result<std::vector<TakenRow>> take(Handle& handle, const ClaimRequest& request) override {
        // First, so that this claim takes retries that are due as well.
        TRY_ASSIGN(const auto requeued, handle.values<std::int64_t>(queues::sql::requeue_orders, request.limit));
        TRY(audit_orders(handle, requeued, step_of("outbox_requeue", "failed", request.worker_id)));
        const auto [due_at, id] = request.after.value_or(Cursor{});
        TRY_ASSIGN(auto rows, handle.all(queues::sql::claim_orders, &taken_order_at, request.worker_id, request.limit,
                                         due_at, id));
        rows = in_due_order(std::move(rows));
        std::vector<std::int64_t> ids;
        for (const TakenRow& row : rows) ids.push_back(row.claimed.message.id);
        TRY(audit_orders(handle, ids, step_of("outbox_claim", "queued", request.worker_id)));
        return rows;
    }

    Result<void> bury(Handle& handle, std::string_view worker_id, const Message& message, std::string why) override {
        Settlement dead{message.id, SettleKind::dead, message.failures};
        dead.code = "BAD_REQUEST";
        dead.error = std::move(why);
        TRY(settle_row(handle, worker_id, dead));
        return {};
    }

    Result<bool> settle_row(Handle& handle, std::string_view worker_id, const Settlement& settlement) override {
        const bool sent = !failed(settlement);
        const bool retry = settlement.kind == SettleKind::retry;
        const OrderSettled settled = order_settled(settlement);
        const auto change = [&](std::string_view sql, const std::optional<std::string>& note) {
            return handle.change(sql, settlement.id, worker_id, settlement.failures_before, settled.last_error, note,
                                 settlement.in_doubt, client::time_ahead(settle_delay_seconds(settlement)));
        };
        TRY_ASSIGN(const auto changed, sent    ? change(queues::sql::order_sent, settled.broker_order_id)
                                       : retry ? change(queues::sql::order_retry, settled.last_error_detail)
                                               : change(queues::sql::order_dead, settled.last_error_detail));
        if (changed != 1) return false;
        // In the order's own transaction: a reader who sees that it was sent finds the broker's answer too.
        if (sent) {
            TRY(write_ledger(handle, settlement.id, options_.ledger_ttl, settled.result_digest, settled.result_json));
        }
        if (settlement.kind == SettleKind::dead) {
            TRY(handle.run(queues::sql::order_letter, settlement.id, worker_id, lane_));
        }
        const OrderStep step = step_of(order_settle_reason(settlement.kind), "sending", worker_id);
        TRY(audit_orders(handle, std::span(&settlement.id, 1), step));
        return true;
    }

    Result<void> note_released(Handle& handle, std::string_view worker_id, std::span<const std::int64_t> ids) override {
        return audit_orders(handle, ids, step_of("outbox_release", "sending", worker_id));
    }

    const OrdersOptions options_;
    const std::string lane_;
};

}  // namespace

std::unique_ptr<Orders> make_orders(File& file, const OrdersOptions& options) {
    return std::make_unique<SqliteOrders>(file, options);
}

std::unique_ptr<RowQueue> make_order_queue(File& file, const OrdersOptions& options, std::string lane) {
    return std::make_unique<OrderQueue>(file, options, std::move(lane));
}

}  // namespace deliverd::store::sqlite
