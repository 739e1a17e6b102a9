#include "store/sqlite/outbox.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/failpoint.h"
#include "base/text.h"
#include "client/lease_arguments.h"
#include "client/sqlite_protocol.h"
#include "client/sqlite_rows.h"
#include "store/memory_message.h"
#include "store/settle_batch.h"
#include "store/sqlite/outbox_sql.h"
#include "store/sqlite/time_modifier.h"

namespace deliverd::store::sqlite {
namespace {

namespace protocol = client::sqlite_sql;

Result<std::vector<MemoryRow>> claim_rows(Handle& handle, const ClaimRequest& request) {
    auto statement = handle.prepared(request.after ? protocol::kClaimAfter : protocol::kClaim);
    if (!statement) return Failure(std::move(statement.error()));
    SqliteStatement& claim = **statement;
    const std::string lease = client::lease_modifier(to_seconds(request.lease));
    claim.bind(1, std::string_view(request.worker_id)).bind(2, std::int64_t{request.limit});
    claim.bind(3, std::string_view(lease));
    if (request.after) claim.bind(4, std::string_view(request.after->due_at)).bind(5, request.after->id);
    std::vector<MemoryRow> rows;
    for (;;) {
        auto more = claim.step();
        if (!more) return Failure(std::move(more.error()));
        if (!*more) break;
        rows.push_back(client::memory_row(claim));
    }
    claim.reset();
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

/// What keeps the row from being sent as it is, if anything: an INSERT past the client library stores any bytes.
std::optional<std::string> unsendable(const MemoryRow& row) {
    const std::array<std::pair<const char*, const std::string*>, 3> texts = {
        std::pair{"target_space", &row.target_space}, std::pair{"payload_md", &row.payload_md},
        std::pair{"payload_sha", &row.payload_sha}};
    for (const auto& [name, text] : texts) {
        if (const auto at = find_invalid_utf8(*text)) {
            return std::string(name) + " is not valid UTF-8 at offset " + std::to_string(*at) +
                   ": no JSON can carry it; store it anew, encoded, for example as base64";
        }
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
Result<void> bury(Handle& handle, const MemoryRow& row, std::string_view worker_id, const std::string& why) {
    auto statement = handle.prepared(protocol::kMarkDead);
    if (!statement) return Failure(std::move(statement.error()));
    (*statement)->bind(1, row.outbox_id).bind(2, worker_id).bind(3, std::string_view(why));
    if (auto done = (*statement)->run(); !done) return done;
    return audit_transition(handle, row.outbox_id, settle_reason(SettleKind::dead), worker_id);
}

Result<bool> settle_row(Handle& handle, std::string_view worker_id, const Settlement& settlement) {
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
    return handle.changes() == 1;
}

Result<std::optional<RowState>> row_state(Handle& handle, std::int64_t id) {
    auto statement = handle.prepared(kRowState);
    if (!statement) return Failure(std::move(statement.error()));
    SqliteStatement& row = **statement;
    auto found = row.bind(1, id).step();
    if (!found) return Failure(std::move(found.error()));
    if (!*found) return std::nullopt;
    RowState state{phase_of(row.text(0)), std::string(row.text(0)), static_cast<std::int32_t>(row.integer(1)),
                   row.optional_text(2), row.optional_text(3)};
    row.reset();
    return state;
}

Result<SettleAnswer> settle_one(Handle& handle, std::string_view worker_id, const Settlement& settlement) {
    auto applied = settle_row(handle, worker_id, settlement);
    if (!applied) return Failure(std::move(applied.error()));
    SettleAnswer answer{settlement.id, *applied, std::nullopt};
    if (*applied) {
        auto noted = audit_transition(handle, settlement.id, settle_reason(settlement.kind), worker_id);
        if (!noted) return Failure(std::move(noted.error()));
        return answer;
    }
    auto state = row_state(handle, settlement.id);
    if (!state) return Failure(std::move(state.error()));
    answer.row = std::move(*state);
    return answer;
}

}  // namespace

Result<ClaimBatch> SqliteOutbox::claim(const ClaimRequest& request) {
    if (auto ok = client::check_claim(request.worker_id, request.limit, to_seconds(request.lease)); !ok) {
        return Failure(ok.error());
    }
    auto handle = file_.writer();
    if (!handle) return Failure(std::move(handle.error()));
    auto transaction = Transaction::begin(**handle, Durability::relaxed);
    if (!transaction) return Failure(std::move(transaction.error()));
    auto rows = claim_rows(**handle, request);
    if (!rows) return Failure(std::move(rows.error()));
    ClaimBatch batch;
    batch.rows.reserve(rows->size());
    for (const MemoryRow& row : *rows) {
        if (const auto why = unsendable(row)) {
            if (auto done = bury(**handle, row, request.worker_id, *why); !done)
                return Failure(std::move(done.error()));
            continue;
        }
        auto claimed = claimed_of(**handle, row);
        if (!claimed) return Failure(std::move(claimed.error()));
        batch.rows.push_back(std::move(*claimed));
    }
    if (auto done = transaction->commit(); !done) return Failure(std::move(done.error()));
    if (!batch.rows.empty()) batch.last = Cursor{rows->back().next_attempt_at, rows->back().outbox_id};
    return batch;
}

Result<std::vector<SettleAnswer>> SqliteOutbox::settle(std::string_view worker_id,
                                                       std::span<const Settlement> settlements) {
    if (auto ok = client::check_worker(worker_id); !ok) return Failure(ok.error());
    std::vector<SettleAnswer> answers;
    if (settlements.empty()) return answers;
    auto handle = file_.writer();
    if (!handle) return Failure(std::move(handle.error()));
    auto transaction = Transaction::begin(**handle, Durability::full);
    if (!transaction) return Failure(std::move(transaction.error()));
    answers.reserve(settlements.size());
    for (const Settlement& settlement : settlements) {
        auto answer = settle_one(**handle, worker_id, settlement);
        if (!answer) return Failure(std::move(answer.error()));
        answers.push_back(std::move(*answer));
    }
    failpoint("store.during_settle");
    if (auto done = transaction->commit(); !done) return Failure(std::move(done.error()));
    return answers;
}

Result<std::vector<std::int64_t>> SqliteOutbox::run_on_ids(std::string_view sql, std::string_view worker_id,
                                                           std::span<const std::int64_t> ids) {
    if (auto ok = client::check_worker(worker_id); !ok) return Failure(ok.error());
    std::vector<std::int64_t> changed;
    if (ids.empty()) return changed;
    auto handle = file_.writer();
    if (!handle) return Failure(std::move(handle.error()));
    auto transaction = Transaction::begin(**handle, Durability::relaxed);
    if (!transaction) return Failure(std::move(transaction.error()));
    auto statement = (*handle)->prepared(sql);
    if (!statement) return Failure(std::move(statement.error()));
    const std::string list = client::json_ids(ids);
    (*statement)->bind(1, std::string_view(list)).bind(2, worker_id);
    for (;;) {
        auto more = (*statement)->step();
        if (!more) return Failure(std::move(more.error()));
        if (!*more) break;
        changed.push_back((*statement)->integer(0));
    }
    (*statement)->reset();
    if (auto done = transaction->commit(); !done) return Failure(std::move(done.error()));
    return changed;
}

/// A row is locked by nobody while this transaction runs: what was not renewed is lost.
Result<RenewAnswer> SqliteOutbox::renew(std::string_view worker_id, std::span<const std::int64_t> ids) {
    auto renewed = run_on_ids(protocol::kRenewBatch, worker_id, ids);
    if (!renewed) return Failure(std::move(renewed.error()));
    const std::unordered_set<std::int64_t> kept(renewed->begin(), renewed->end());
    RenewAnswer answer{std::move(*renewed), {}};
    std::copy_if(ids.begin(), ids.end(), std::back_inserter(answer.lost),
                 [&](std::int64_t id) { return !kept.contains(id); });
    return answer;
}

Result<std::int64_t> SqliteOutbox::release(std::string_view worker_id, std::span<const std::int64_t> ids) {
    auto released = run_on_ids(kRelease, worker_id, ids);
    if (!released) return Failure(std::move(released.error()));
    return static_cast<std::int64_t>(released->size());
}

Result<void> SqliteOutbox::audit(std::string_view worker_id, std::span<const AuditNote> notes) {
    if (auto ok = client::check_worker(worker_id); !ok) return Failure(ok.error());
    if (notes.empty()) return {};
    auto handle = file_.writer();
    if (!handle) return Failure(std::move(handle.error()));
    auto transaction = Transaction::begin(**handle, Durability::full);
    if (!transaction) return Failure(std::move(transaction.error()));
    for (const AuditNote& note : notes) {
        auto statement = (*handle)->prepared(kAuditNote);
        if (!statement) return Failure(std::move(statement.error()));
        const std::string reason = storable(note.reason);
        const std::string detail = shorten(storable(note.detail), kMaxStoredErrorBytes);
        (*statement)->bind(1, note.id).bind(2, std::string_view(reason)).bind(3, std::string_view(detail));
        (*statement)->bind(4, std::int64_t{note.failures}).bind(5, worker_id);
        if (auto done = (*statement)->run(); !done) return done;
    }
    return transaction->commit();
}

Result<double> SqliteOutbox::lag_seconds() {
    auto handle = file_.reader();
    if (!handle) return Failure(std::move(handle.error()));
    auto statement = (*handle)->prepared(kLag);
    if (!statement) return Failure(std::move(statement.error()));
    auto found = (*statement)->step();
    if (!found) return Failure(std::move(found.error()));
    const double lag = *found ? std::max(0.0, (*statement)->real(0)) : 0.0;
    (*statement)->reset();
    return lag;
}

Result<OutboxCounts> SqliteOutbox::counts() {
    auto handle = file_.reader();
    if (!handle) return Failure(std::move(handle.error()));
    auto statement = (*handle)->prepared(kCounts);
    if (!statement) return Failure(std::move(statement.error()));
    OutboxCounts counts;
    for (;;) {
        auto more = (*statement)->step();
        if (!more) return Failure(std::move(more.error()));
        if (!*more) break;
        const std::string_view status = (*statement)->text(0);
        const std::int64_t count = (*statement)->integer(1);
        if (status == "pending") counts.pending = count;
        if (status == "sent") counts.sent = count;
        if (status == "dead") counts.dead = count;
    }
    (*statement)->reset();
    return counts;
}

Result<void> SqliteOutbox::ping(Duration deadline) {
    auto handle = file_.reader(deadline);
    if (!handle) return Failure(std::move(handle.error()));
    return (*handle)->run("select count(*) from sqlite_schema");
}

}  // namespace deliverd::store::sqlite
