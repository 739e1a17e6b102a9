#include "store/sqlite/queues/orders_outbox.h"

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "client/lease_arguments.h"
#include "client/sqlite_rows.h"
#include "store/order_row.h"
#include "store/settle_batch.h"
#include "store/sqlite/file/time_modifier.h"
#include "store/sqlite/letters/lane_letters.h"
#include "store/sqlite/queues/orders.h"
#include "store/sqlite/queues/orders_sql.h"

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
    std::string created_at;
    std::string claimed_at;
};

ClaimedOrder claimed_order_at(const SqliteStatement& row) {
    return {row.integer(0),
            std::string(row.text(1)),
            std::string(row.text(2)),
            std::string(row.text(3)),
            static_cast<std::int32_t>(row.integer(4)),
            std::string(row.text(5)),
            std::string(row.text(6)),
            std::string(row.text(7))};
}

OrderStep step_of(std::string_view reason, const char* status_from, std::string_view worker_id) {
    return {reason, status_from, std::string(worker_id), worker_id};
}

Result<void> requeue_failed(Handle& handle, std::string_view worker_id, std::int32_t limit) {
    auto statement = handle.prepared(orders_sql::kRequeue);
    if (!statement) return Failure(std::move(statement.error()));
    auto ids = answered_ids((*statement)->bind(1, std::int64_t{limit}));
    if (!ids) return Failure(std::move(ids.error()));
    return audit_orders(handle, *ids, step_of("outbox_requeue", "failed", worker_id));
}

Result<std::vector<ClaimedOrder>> claim_rows(Handle& handle, const ClaimRequest& request) {
    auto statement = handle.prepared(request.after ? orders_sql::kClaimAfter : orders_sql::kClaim);
    if (!statement) return Failure(std::move(statement.error()));
    SqliteStatement& claim = **statement;
    claim.bind(1, std::string_view(request.worker_id)).bind(2, std::int64_t{request.limit});
    if (request.after) claim.bind(3, std::string_view(request.after->due_at)).bind(4, request.after->id);
    std::vector<ClaimedOrder> rows;
    auto read = each_row(claim, [&](const SqliteStatement& row) { rows.push_back(claimed_order_at(row)); });
    if (!read) return Failure(std::move(read.error()));
    std::sort(rows.begin(), rows.end(), [](const ClaimedOrder& a, const ClaimedOrder& b) {
        return std::tie(a.next_attempt_at, a.id) < std::tie(b.next_attempt_at, b.id);
    });
    std::vector<std::int64_t> ids;
    ids.reserve(rows.size());
    for (const ClaimedOrder& row : rows) ids.push_back(row.id);
    auto noted = audit_orders(handle, ids, step_of("outbox_claim", "queued", request.worker_id));
    if (!noted) return Failure(std::move(noted.error()));
    return rows;
}

std::optional<std::string> unsendable(const ClaimedOrder& row) {
    const std::array<std::pair<const char*, const std::string*>, 3> texts = {
        std::pair{"idempotency_key", &row.idempotency_key}, std::pair{"request_json", &row.request_json},
        std::pair{"trace_id", &row.trace_id}};
    for (const auto& [name, text] : texts) {
        if (auto why = unsendable_text(name, *text)) return why;
    }
    return std::nullopt;
}

Claimed claimed_of(const ClaimedOrder& row) {
    Claimed claimed;
    claimed.message = order_message({row.id, row.idempotency_key, row.request_json, row.trace_id, row.retry_count});
    const auto created = parse_rfc3339(row.created_at);
    const auto now = parse_rfc3339(row.claimed_at);
    if (created && now) claimed.age_seconds = std::chrono::duration<double>(*now - *created).count();
    return claimed;
}

/// Given up without an attempt.
Settlement burial(const ClaimedOrder& row, std::string why) {
    Settlement dead{row.id, SettleKind::dead, row.retry_count};
    dead.code = "BAD_REQUEST";
    dead.error = std::move(why);
    return dead;
}

}  // namespace

SqliteOrdersOutbox::SqliteOrdersOutbox(File& file, const OrdersOptions& options, std::string lane)
    : OutboxBase(file, {.renew = orders_sql::kRenew,
                        .release = orders_sql::kRelease,
                        .audit_note = orders_sql::kAuditNote,
                        .row_state = orders_sql::kRowState,
                        .lag = orders_sql::kLag,
                        .counts = orders_sql::kCounts}),
      options_(options),
      lane_(std::move(lane)) {}

Result<ClaimBatch> SqliteOrdersOutbox::claim(const ClaimRequest& request) {
    if (auto ok = client::check_claim(request.worker_id, request.limit, to_seconds(request.lease)); !ok) {
        return Failure(std::move(ok.error()));
    }
    return in_transaction(file(), Durability::relaxed, [&](Handle& handle) -> Result<ClaimBatch> {
        if (auto requeued = requeue_failed(handle, request.worker_id, request.limit); !requeued) {
            return Failure(std::move(requeued.error()));
        }
        auto rows = claim_rows(handle, request);
        if (!rows) return Failure(std::move(rows.error()));
        ClaimBatch batch;
        batch.rows.reserve(rows->size());
        for (const ClaimedOrder& row : *rows) {
            if (auto why = unsendable(row)) {
                auto buried = settle_row(handle, request.worker_id, burial(row, std::move(*why)));
                if (!buried) return Failure(std::move(buried.error()));
                continue;
            }
            batch.rows.push_back(claimed_of(row));
        }
        if (!batch.rows.empty()) batch.last = Cursor{rows->back().next_attempt_at, rows->back().id};
        return batch;
    });
}

Result<bool> SqliteOrdersOutbox::settle_row(Handle& handle, std::string_view worker_id, const Settlement& settlement) {
    const bool sent = settlement.kind == SettleKind::sent || settlement.kind == SettleKind::duplicate;
    const bool retry = settlement.kind == SettleKind::retry;
    auto statement = handle.prepared(sent ? orders_sql::kSent : retry ? orders_sql::kRetryAfter : orders_sql::kGiveUp);
    if (!statement) return Failure(std::move(statement.error()));
    const OrderSettled settled = order_settled(settlement);
    const std::string delay = time_ahead(settle_delay_seconds(settlement));
    (*statement)->bind(1, settlement.id).bind(2, worker_id).bind(3, std::int64_t{settlement.failures_before});
    (*statement)->bind(4, settled.last_error).bind(5, settled.last_error_detail);
    if (sent) {
        (*statement)->bind(5, settled.broker_order_id);
    } else {
        (*statement)->bind(6, std::int64_t{settlement.in_doubt ? 1 : 0});
    }
    if (retry) (*statement)->bind(7, std::string_view(delay));
    if (auto done = (*statement)->run(); !done) return Failure(std::move(done.error()));
    if (handle.changes() != 1) return false;
    if (sent) {
        auto kept =
            write_ledger(handle, settlement.id, options_.ledger_ttl, settled.result_digest, settled.result_json);
        if (!kept) return Failure(std::move(kept.error()));
    }
    if (settlement.kind == SettleKind::dead) {
        auto written = write_row_letter(handle, orders_sql::kLetter, settlement.id, worker_id, lane_);
        if (!written) return Failure(std::move(written.error()));
    }
    const OrderStep step = step_of(order_settle_reason(settlement.kind), "sending", worker_id);
    auto noted = audit_orders(handle, std::span(&settlement.id, 1), step);
    if (!noted) return Failure(std::move(noted.error()));
    return true;
}

Result<void> SqliteOrdersOutbox::note_released(Handle& handle, std::string_view worker_id,
                                               std::span<const std::int64_t> ids) {
    return audit_orders(handle, ids, step_of("outbox_release", "sending", worker_id));
}

Result<std::int64_t> SqliteOrdersOutbox::rescue(std::string_view worker_id, Duration stuck_for) {
    if (auto ok = client::check_worker(worker_id); !ok) return Failure(std::move(ok.error()));
    if (stuck_for < Duration::zero()) {
        return permanent("bad_argument", "stuck_for is negative: it must be 0 or longer");
    }
    return in_transaction(file(), Durability::relaxed, [&](Handle& handle) -> Result<std::int64_t> {
        auto statement = handle.prepared(orders_sql::kRescue);
        if (!statement) return Failure(std::move(statement.error()));
        const std::string since = client::lease_modifier(to_seconds(stuck_for));
        auto ids = answered_ids((*statement)->bind(1, std::string_view(since)));
        if (!ids) return Failure(std::move(ids.error()));
        auto noted = audit_orders(handle, *ids, step_of("outbox_stuck", "sending", worker_id));
        if (!noted) return Failure(std::move(noted.error()));
        return static_cast<std::int64_t>(ids->size());
    });
}

}  // namespace deliverd::store::sqlite
