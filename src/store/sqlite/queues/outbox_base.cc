#include "store/sqlite/queues/outbox_base.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/failpoint.h"
#include "base/text.h"
#include "base/try.h"
#include "client/arguments.h"
#include "client/sql_values.h"
#include "store/outbox_row.h"

namespace deliverd::store::sqlite {

std::optional<std::string> unsendable_text(std::initializer_list<NamedText> texts) {
    for (const auto& [column, text] : texts) {
        if (const auto at = find_invalid_utf8(text)) {
            return std::string(column) + " is not valid UTF-8 at offset " + std::to_string(*at) +
                   ": no JSON can carry it; store it again, encoded, for example as base64";
        }
    }
    return std::nullopt;
}

std::vector<TakenRow> in_due_order(std::vector<TakenRow> rows) {
    std::ranges::sort(rows, {}, [](const TakenRow& row) { return std::tie(row.due_at, row.claimed.message.id); });
    return rows;
}

Result<ClaimBatch> OutboxBase::claim(const ClaimRequest& request) {
    TRY(client::check_claim(request.worker_id, request.limit, to_seconds(request.lease)));
    return in_transaction(file_, Durability::relaxed, [&](Handle& handle) -> Result<ClaimBatch> {
        // A row that can never be sent dies here: a sink could only refuse it, with every attempt again.
        TRY_ASSIGN(auto rows, take(handle, request));
        ClaimBatch batch;
        batch.rows.reserve(rows.size());
        for (TakenRow& row : rows) {
            if (row.unsendable) {
                TRY(bury(handle, request.worker_id, row.claimed.message, std::move(*row.unsendable)));
                continue;
            }
            batch.last = Cursor{std::move(row.due_at), row.claimed.message.id};
            batch.rows.push_back(std::move(row.claimed));
        }
        return batch;
    });
}

Result<std::vector<SettleAnswer>> OutboxBase::settle(std::string_view worker_id,
                                                     std::span<const Settlement> settlements) {
    using Answers = std::vector<SettleAnswer>;
    TRY(client::check_worker(worker_id));
    if (settlements.empty()) return Answers{};
    // Row by row: there is no round trip to save, and prepared statements cost little.
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Answers> {
        Answers answers;
        answers.reserve(settlements.size());
        for (const Settlement& settlement : settlements) {
            TRY_ASSIGN(const bool applied, settle_row(handle, worker_id, settlement));
            SettleAnswer& answer = answers.emplace_back(SettleAnswer{settlement.id, applied, std::nullopt});
            if (applied) continue;
            TRY_ASSIGN(answer.row, handle.one(
                                       statements_.row_state,
                                       [](const SqliteStatement& row) { return row_state_at(row); }, settlement.id));
        }
        failpoint("store.during_settle");
        return answers;
    });
}

/// Nobody else has a row locked while this transaction runs: what was not renewed is lost.
Result<RenewAnswer> OutboxBase::renew(std::string_view worker_id, std::span<const std::int64_t> ids) {
    TRY(client::check_worker(worker_id));
    if (ids.empty()) return RenewAnswer{};
    TRY_ASSIGN(auto renewed, in_transaction(file_, Durability::relaxed, [&](Handle& handle) {
                   return handle.values<std::int64_t>(statements_.renew, client::json_ids(ids), worker_id);
               }));
    const std::unordered_set<std::int64_t> kept(renewed.begin(), renewed.end());
    RenewAnswer answer{std::move(renewed), {}};
    std::copy_if(ids.begin(), ids.end(), std::back_inserter(answer.lost),
                 [&](std::int64_t id) { return !kept.contains(id); });
    return answer;
}

Result<std::int64_t> OutboxBase::release(std::string_view worker_id, std::span<const std::int64_t> ids) {
    TRY(client::check_worker(worker_id));
    if (ids.empty()) return 0;
    // Relaxed: rows whose release is forgotten only wait until their lease runs out.
    return in_transaction(file_, Durability::relaxed, [&](Handle& handle) -> Result<std::int64_t> {
        TRY_ASSIGN(const auto released,
                   handle.values<std::int64_t>(statements_.release, client::json_ids(ids), worker_id));
        TRY(note_released(handle, worker_id, released));
        return static_cast<std::int64_t>(released.size());
    });
}

Result<void> OutboxBase::audit(std::string_view worker_id, std::span<const AuditNote> notes) {
    TRY(client::check_worker(worker_id));
    if (notes.empty()) return {};
    // On the disk, unlike a claim: nothing writes these notes again.
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<void> {
        for (const AuditNote& note : notes) {
            TRY(handle.run(statements_.audit_note, note.id, storable(note.reason),
                           shorten(storable(note.detail), kMaxStoredErrorBytes), note.failures, worker_id));
        }
        return {};
    });
}

Result<double> OutboxBase::lag_seconds() {
    TRY_ASSIGN(auto handle, file_.reader());
    TRY_ASSIGN(const auto lag, handle->value<double>(statements_.lag));
    return std::max(0.0, lag.value_or(0));  // the wall clock may have been set back
}

Result<RowCounts> OutboxBase::counts() {
    TRY_ASSIGN(auto handle, file_.reader());
    RowCounts counts;
    TRY(handle->each(statements_.counts,
                     [&](const SqliteStatement& row) { counts.of(row.text(0)) += row.get<std::int64_t>(1); }));
    return counts;
}

}  // namespace deliverd::store::sqlite
