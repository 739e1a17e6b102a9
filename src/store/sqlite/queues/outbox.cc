#include "store/sqlite/queues/outbox.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "client/lease_arguments.h"
#include "client/sqlite_protocol.h"
#include "client/sqlite_rows.h"
#include "store/memory_message.h"
#include "store/settle_batch.h"
#include "store/sqlite/file/time_modifier.h"
#include "store/sqlite/letters/lane_letters.h"
#include "store/sqlite/queues/outbox_sql.h"

namespace deliverd::store::sqlite {
namespace {

namespace protocol = client::sqlite_sql;

Result<std::vector<MemoryRow>> claim_memories(Handle& handle, const ClaimRequest& request) {
    auto statement = handle.prepared(request.after ? protocol::kClaimAfter : protocol::kClaim);
    if (!statement) return Failure(std::move(statement.error()));
    SqliteStatement& claim = **statement;
    const std::string lease = client::lease_modifier(to_seconds(request.lease));
    claim.bind(1, std::string_view(request.worker_id)).bind(2, std::int64_t{request.limit});
    claim.bind(3, std::string_view(lease));
    if (request.after) claim.bind(4, std::string_view(request.after->due_at)).bind(5, request.after->id);
    std::vector<MemoryRow> rows;
    auto read = each_row(claim, [&](const SqliteStatement& row) { rows.push_back(client::memory_row(row)); });
    if (!read) return Failure(std::move(read.error()));
    std::sort(rows.begin(), rows.end(), [](const MemoryRow& a, const MemoryRow& b) {
        return std::tie(a.next_attempt_at, a.outbox_id) < std::tie(b.next_attempt_at, b.outbox_id);
    });
    return rows;
}

Result<Claimed> claimed_of(Handle& handle, const MemoryRow& row) {
    Claimed claimed;
    claimed.message = memory_message(
        {row.outbox_id, row.item_id, row.target_space, row.payload_md, row.payload_sha, row.retry_count});
    const auto due = parse_rfc3339(row.next_attempt_at);
    const auto now = parse_rfc3339(row.locked_at.value_or(""));  // the claim has just written it
    if (due && now) claimed.age_seconds = std::chrono::duration<double>(*now - *due).count();

    auto dedup = handle.prepared(protocol::kCheckDedup);
    if (!dedup) return Failure(std::move(dedup.error()));
    auto found =
        (*dedup)->bind(1, std::string_view(row.target_space)).bind(2, std::string_view(row.payload_sha)).step();
    if (!found) return Failure(std::move(found.error()));
    claimed.duplicate = *found;
    if (*found) claimed.duplicate_receipt = (*dedup)->optional_text(1);
    (*dedup)->reset();
    return claimed;
}

std::optional<std::string> unsendable(const MemoryRow& row) {
    const std::array<std::pair<const char*, const std::string*>, 3> texts = {
        std::pair{"target_space", &row.target_space}, std::pair{"payload_md", &row.payload_md},
        std::pair{"payload_sha", &row.payload_sha}};
    for (const auto& [name, text] : texts) {
        if (auto why = unsendable_text(name, *text)) return why;
    }
    return std::nullopt;
}

Result<void> audit_transition(Handle& handle, std::int64_t id, std::string_view reason, std::string_view worker_id) {
    auto statement = handle.prepared(kAuditRow);
    if (!statement) return Failure(std::move(statement.error()));
    (*statement)->bind(1, id).bind(2, reason);
    (*statement)->bind(3, std::string_view("pending")).bind(4, worker_id).bind(5, worker_id);
    return (*statement)->run();
}

/// Given up without an attempt, so the count stays.
Result<void> bury(Handle& handle, const MemoryRow& row, std::string_view worker_id, std::string_view lane,
                  const std::string& why) {
    auto statement = handle.prepared(protocol::kMarkDead);
    if (!statement) return Failure(std::move(statement.error()));
    (*statement)->bind(1, row.outbox_id).bind(2, worker_id).bind(3, std::string_view(why));
    if (auto done = (*statement)->run(); !done) return done;
    if (auto written = write_row_letter(handle, protocol::kMemoryLetter, row.outbox_id, worker_id, lane); !written) {
        return written;
    }
    return audit_transition(handle, row.outbox_id, settle_reason(SettleKind::dead), worker_id);
}

}  // namespace

SqliteOutbox::SqliteOutbox(File& file, std::string lane)
    : OutboxBase(file, {.renew = protocol::kRenewBatch,
                        .release = kRelease,
                        .audit_note = kAuditNote,
                        .row_state = kRowState,
                        .lag = kLag,
                        .counts = kCounts}),
      lane_(std::move(lane)) {}

Result<ClaimBatch> SqliteOutbox::claim(const ClaimRequest& request) {
    if (auto ok = client::check_claim(request.worker_id, request.limit, to_seconds(request.lease)); !ok) {
        return Failure(std::move(ok.error()));
    }
    return in_transaction(file(), Durability::relaxed, [&](Handle& handle) -> Result<ClaimBatch> {
        auto rows = claim_memories(handle, request);
        if (!rows) return Failure(std::move(rows.error()));
        ClaimBatch batch;
        batch.rows.reserve(rows->size());
        for (const MemoryRow& row : *rows) {
            if (const auto why = unsendable(row)) {
                auto done = bury(handle, row, request.worker_id, lane_, *why);
                if (!done) return Failure(std::move(done.error()));
                continue;
            }
            auto claimed = claimed_of(handle, row);
            if (!claimed) return Failure(std::move(claimed.error()));
            batch.rows.push_back(std::move(*claimed));
        }
        if (!batch.rows.empty()) batch.last = Cursor{rows->back().next_attempt_at, rows->back().outbox_id};
        return batch;
    });
}

Result<bool> SqliteOutbox::settle_row(Handle& handle, std::string_view worker_id, const Settlement& settlement) {
    std::string_view sql = kSent;
    if (settlement.kind == SettleKind::retry) sql = kRetryAfter;
    if (settlement.kind == SettleKind::dead) sql = kGiveUp;
    auto statement = handle.prepared(sql);
    if (!statement) return Failure(std::move(statement.error()));
    const std::optional<std::string> note = settle_note(settlement);
    const std::string delay = time_ahead(settle_delay_seconds(settlement));
    (*statement)->bind(1, settlement.id).bind(2, worker_id).bind(3, note);
    (*statement)->bind(4, std::int64_t{settlement.failures_before});
    if (settlement.kind == SettleKind::retry) (*statement)->bind(5, std::string_view(delay));
    if (auto done = (*statement)->run(); !done) return Failure(std::move(done.error()));
    if (handle.changes() != 1) return false;
    if (settlement.kind == SettleKind::dead) {
        auto written = write_row_letter(handle, protocol::kMemoryLetter, settlement.id, worker_id, lane_);
        if (!written) return Failure(std::move(written.error()));
    }
    auto noted = audit_transition(handle, settlement.id, settle_reason(settlement.kind), worker_id);
    if (!noted) return Failure(std::move(noted.error()));
    return true;
}

}  // namespace deliverd::store::sqlite
