#include <utility>

#include "base/text.h"
#include "base/try.h"
#include "client/arguments.h"
#include "client/protocol_rows.h"
#include "client/sql_values.h"
#include "client/statements.h"
#include "store/outbox_row.h"
#include "store/sqlite/queues/outbox_base.h"
#include "store/sqlite/queues/queues.h"
#include "store/sqlite/queues/statements.h"

namespace deliverd::store::sqlite {
namespace {

/// With the answer to an equal memory that was sent before, if there is one.
Result<TakenRow> taken_of(Handle& handle, const MemoryRow& row) {
    TakenRow taken{.due_at = row.next_attempt_at};
    Claimed& claimed = taken.claimed;
    claimed.message = memory_message(
        {row.outbox_id, row.item_id, row.target_space, row.payload_md, row.payload_sha, row.retry_count});
    taken.unsendable = unsendable_text(
        {{"target_space", row.target_space}, {"payload_md", row.payload_md}, {"payload_sha", row.payload_sha}});
    if (taken.unsendable) return taken;
    const auto due = parse_rfc3339(row.next_attempt_at);
    const auto now = parse_rfc3339(row.locked_at.value_or(""));  // the claim has just written it
    if (due && now) claimed.age_seconds = std::chrono::duration<double>(*now - *due).count();
    TRY_ASSIGN(auto sent, handle.one(client::sql::check_dedup, &client::row_as<DedupHit, SqliteStatement>,
                                     row.target_space, row.payload_sha));
    claimed.duplicate = sent.has_value();
    if (sent) claimed.duplicate_receipt = std::move(sent->memory_id);
    return taken;
}

Result<void> audit_transition(Handle& handle, std::int64_t id, std::string_view reason, std::string_view worker_id) {
    return handle.run(queues::sql::audit_memory, id, reason, worker_id);
}

class MemoryQueue final : public OutboxBase {
public:
    MemoryQueue(File& file, std::string lane)
        : OutboxBase(file, {.renew = client::sql::renew_batch,
                            .release = queues::sql::release_memories,
                            .audit_note = queues::sql::note_memory,
                            .row_state = queues::sql::memory_state,
                            .lag = queues::sql::memory_lag,
                            .counts = queues::sql::memory_counts}),
          lane_(std::move(lane)) {}

private:
    Result<std::vector<TakenRow>> take(Handle& handle, const ClaimRequest& request) override {
        const auto [due_at, id] = request.after.value_or(Cursor{});
        TRY_ASSIGN(const auto rows,
                   handle.all(client::sql::claim, &client::row_as<MemoryRow, SqliteStatement>, request.worker_id,
                              request.limit, client::time_ago(request.lease), due_at, id));
        std::vector<TakenRow> taken;
        taken.reserve(rows.size());
        for (const MemoryRow& row : rows) {
            TRY_ASSIGN(auto one, taken_of(handle, row));
            taken.push_back(std::move(one));
        }
        return in_due_order(std::move(taken));
    }

    /// By the protocol's statement and not by memory_dead, because nothing was attempted: the count stays.
    Result<void> bury(Handle& handle, std::string_view worker_id, const Message& message, std::string why) override {
        TRY(handle.run(client::sql::mark_dead, message.id, worker_id, why));
        TRY(handle.run(client::sql::memory_letter, message.id, worker_id, lane_));
        return audit_transition(handle, message.id, settle_reason(SettleKind::dead), worker_id);
    }

    Result<bool> settle_row(Handle& handle, std::string_view worker_id, const Settlement& settlement) override {
        std::string_view sql = queues::sql::memory_sent;
        if (settlement.kind == SettleKind::retry) sql = queues::sql::memory_retry;
        if (settlement.kind == SettleKind::dead) sql = queues::sql::memory_dead;
        TRY_ASSIGN(const auto changed,
                   handle.change(sql, settlement.id, worker_id, settle_note(settlement), settlement.failures_before,
                                 client::time_ahead(settle_delay_seconds(settlement))));
        if (changed != 1) return false;
        // In the same transaction: no row is dead without its letter.
        if (settlement.kind == SettleKind::dead) {
            TRY(handle.run(client::sql::memory_letter, settlement.id, worker_id, lane_));
        }
        TRY(audit_transition(handle, settlement.id, settle_reason(settlement.kind), worker_id));
        return true;
    }

    const std::string lane_;
};

}  // namespace

std::unique_ptr<RowQueue> make_memory_queue(File& file, std::string lane) {
    return std::make_unique<MemoryQueue>(file, std::move(lane));
}

}  // namespace deliverd::store::sqlite
