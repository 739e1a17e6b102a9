#include "store/sqlite/queues/orders_outbox.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "base/try.h"
#include "client/lease_arguments.h"
#include "client/sql_values.h"
#include "store/order_row.h"
#include "store/settle_batch.h"
#include "store/sqlite/queues/orders.h"
#include "store/sqlite/queues/statements.h"

namespace deliverd::store::sqlite {
namespace {

/// What a claim answers of a row.
struct ClaimedOrder {
    std::int64_t id = 0;
    std::string idempotency_key;
    std::string request_json;
    std::string trace_id;
    std::int32_t retry_count = 0;
    std::string next_attempt_at;
    WallTime created_at{};
    WallTime claimed_at{};
};

ClaimedOrder claimed_order_at(const SqliteStatement& row) {
    ClaimedOrder out;
    row.read(out.id, out.idempotency_key, out.request_json, out.trace_id, out.retry_count, out.next_attempt_at,
             out.created_at, out.claimed_at);
    return out;
}

OrderStep step_of(std::string_view reason, const char* status_from, std::string_view worker_id) {
    return {reason, status_from, std::string(worker_id), worker_id};
}

Result<void> requeue_failed(Handle& handle, std::string_view worker_id, std::int32_t limit) {
    TRY_ASSIGN(const auto ids, handle.values<std::int64_t>(queues::sql::requeue_orders, limit));
    return audit_orders(handle, ids, step_of("outbox_requeue", "failed", worker_id));
}

Result<std::vector<ClaimedOrder>> claim_rows(Handle& handle, const ClaimRequest& request) {
    const auto [due_at, id] = request.after.value_or(Cursor{});
    TRY_ASSIGN(auto rows,
               handle.all(queues::sql::claim_orders, &claimed_order_at, request.worker_id, request.limit, due_at, id));
    std::sort(rows.begin(), rows.end(), [](const ClaimedOrder& a, const ClaimedOrder& b) {
        return std::tie(a.next_attempt_at, a.id) < std::tie(b.next_attempt_at, b.id);
    });
    std::vector<std::int64_t> ids;
    ids.reserve(rows.size());
    for (const ClaimedOrder& row : rows) ids.push_back(row.id);
    TRY(audit_orders(handle, ids, step_of("outbox_claim", "queued", request.worker_id)));
    return rows;
}

Claimed claimed_of(const ClaimedOrder& row) {
    Claimed claimed;
    claimed.message = order_message({row.id, row.idempotency_key, row.request_json, row.trace_id, row.retry_count});
    // A time that nobody can read is the beginning of time: no age follows from it.
    if (row.created_at != WallTime{}) {
        claimed.age_seconds = std::chrono::duration<double>(row.claimed_at - row.created_at).count();
    }
    return claimed;
}

/// Given up without an attempt.
Settlement burial(const ClaimedOrder& row, std::string why) {
    Settlement dead{row.id, SettleKind::dead, row.retry_count};
    dead.code = "BAD_REQUEST";
    dead.error = std::move(why);
    return dead;
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

    Result<ClaimBatch> claim(const ClaimRequest& request) override {
        TRY(client::check_claim(request.worker_id, request.limit, to_seconds(request.lease)));
        return in_transaction(file(), Durability::relaxed, [&](Handle& handle) -> Result<ClaimBatch> {
            TRY(requeue_failed(handle, request.worker_id, request.limit));
            TRY_ASSIGN(auto rows, claim_rows(handle, request));
            ClaimBatch batch;
            batch.rows.reserve(rows.size());
            for (const ClaimedOrder& row : rows) {
                if (auto why = unsendable_text({{"idempotency_key", row.idempotency_key},
                                                {"request_json", row.request_json},
                                                {"trace_id", row.trace_id}})) {
                    TRY(settle_row(handle, request.worker_id, burial(row, std::move(*why))));
                    continue;
                }
                batch.rows.push_back(claimed_of(row));
            }
            if (!batch.rows.empty()) batch.last = Cursor{rows.back().next_attempt_at, rows.back().id};
            return batch;
        });
    }

    Result<std::int64_t> rescue(std::string_view worker_id, Duration stuck_for) override {
        TRY(client::check_worker(worker_id));
        if (stuck_for < Duration::zero()) {
            return bad_argument("stuck_for is negative: it must be 0 or longer");
        }
        return in_transaction(file(), Durability::relaxed, [&](Handle& handle) -> Result<std::int64_t> {
            TRY_ASSIGN(const auto ids,
                       handle.values<std::int64_t>(queues::sql::rescue_orders, client::time_ago(stuck_for)));
            TRY(audit_orders(handle, ids, step_of("outbox_stuck", "sending", worker_id)));
            return static_cast<std::int64_t>(ids.size());
        });
    }

private:
    Result<bool> settle_row(Handle& handle, std::string_view worker_id, const Settlement& settlement) override {
        const bool sent = settlement.kind == SettleKind::sent || settlement.kind == SettleKind::duplicate;
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

std::unique_ptr<RowQueue> make_order_queue(File& file, const OrdersOptions& options, std::string lane) {
    return std::make_unique<OrderQueue>(file, options, std::move(lane));
}

}  // namespace deliverd::store::sqlite
