#include "store/sqlite/queues/outbox_base.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "base/failpoint.h"
#include "base/text.h"
#include "client/lease_arguments.h"
#include "client/sqlite_rows.h"
#include "store/memory_message.h"

namespace deliverd::store::sqlite {
namespace {

/// The ids that `sql` (1 ids as a JSON array, 2 worker) changed.
Result<std::vector<std::int64_t>> change_ids(Handle& handle, std::string_view sql, std::string_view worker_id,
                                             std::span<const std::int64_t> ids) {
    auto statement = handle.prepared(sql);
    if (!statement) return Failure(std::move(statement.error()));
    const std::string list = client::json_ids(ids);
    return answered_ids((*statement)->bind(1, std::string_view(list)).bind(2, worker_id));
}

Result<std::optional<RowState>> row_state(Handle& handle, std::string_view sql, std::int64_t id) {
    auto statement = handle.prepared(sql);
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

}  // namespace

Result<std::vector<std::int64_t>> answered_ids(SqliteStatement& statement) {
    std::vector<std::int64_t> ids;
    auto read = each_row(statement, [&](const SqliteStatement& row) { ids.push_back(row.integer(0)); });
    if (!read) return Failure(std::move(read.error()));
    return ids;
}

std::optional<std::string> unsendable_text(std::string_view column, std::string_view text) {
    const auto at = find_invalid_utf8(text);
    if (!at) return std::nullopt;
    return std::string(column) + " is not valid UTF-8 at offset " + std::to_string(*at) +
           ": no JSON can carry it; store it anew, encoded, for example as base64";
}

Result<SettleAnswer> OutboxBase::settle_one(Handle& handle, std::string_view worker_id, const Settlement& settlement) {
    auto applied = settle_row(handle, worker_id, settlement);
    if (!applied) return Failure(std::move(applied.error()));
    SettleAnswer answer{settlement.id, *applied, std::nullopt};
    if (*applied) return answer;
    auto state = row_state(handle, statements_.row_state, settlement.id);
    if (!state) return Failure(std::move(state.error()));
    answer.row = std::move(*state);
    return answer;
}

Result<std::vector<SettleAnswer>> OutboxBase::settle(std::string_view worker_id,
                                                     std::span<const Settlement> settlements) {
    using Answers = std::vector<SettleAnswer>;
    if (auto ok = client::check_worker(worker_id); !ok) return Failure(std::move(ok.error()));
    if (settlements.empty()) return Answers{};
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Answers> {
        Answers answers;
        answers.reserve(settlements.size());
        for (const Settlement& settlement : settlements) {
            auto answer = settle_one(handle, worker_id, settlement);
            if (!answer) return Failure(std::move(answer.error()));
            answers.push_back(std::move(*answer));
        }
        failpoint("store.during_settle");
        return answers;
    });
}

/// A row is locked by nobody while this transaction runs: what was not renewed is lost.
Result<RenewAnswer> OutboxBase::renew(std::string_view worker_id, std::span<const std::int64_t> ids) {
    if (auto ok = client::check_worker(worker_id); !ok) return Failure(std::move(ok.error()));
    if (ids.empty()) return RenewAnswer{};
    auto renewed = in_transaction(file_, Durability::relaxed, [&](Handle& handle) {
        return change_ids(handle, statements_.renew, worker_id, ids);
    });
    if (!renewed) return Failure(std::move(renewed.error()));
    const std::unordered_set<std::int64_t> kept(renewed->begin(), renewed->end());
    RenewAnswer answer{std::move(*renewed), {}};
    std::copy_if(ids.begin(), ids.end(), std::back_inserter(answer.lost),
                 [&](std::int64_t id) { return !kept.contains(id); });
    return answer;
}

Result<std::int64_t> OutboxBase::release(std::string_view worker_id, std::span<const std::int64_t> ids) {
    if (auto ok = client::check_worker(worker_id); !ok) return Failure(std::move(ok.error()));
    if (ids.empty()) return 0;
    return in_transaction(file_, Durability::relaxed, [&](Handle& handle) -> Result<std::int64_t> {
        auto released = change_ids(handle, statements_.release, worker_id, ids);
        if (!released) return Failure(std::move(released.error()));
        if (auto noted = note_released(handle, worker_id, *released); !noted) return Failure(std::move(noted.error()));
        return static_cast<std::int64_t>(released->size());
    });
}

Result<void> OutboxBase::audit(std::string_view worker_id, std::span<const AuditNote> notes) {
    if (auto ok = client::check_worker(worker_id); !ok) return ok;
    if (notes.empty()) return {};
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<void> {
        for (const AuditNote& note : notes) {
            auto statement = handle.prepared(statements_.audit_note);
            if (!statement) return Failure(std::move(statement.error()));
            const std::string reason = storable(note.reason);
            const std::string detail = shorten(storable(note.detail), kMaxStoredErrorBytes);
            (*statement)->bind(1, note.id).bind(2, std::string_view(reason)).bind(3, std::string_view(detail));
            (*statement)->bind(4, std::int64_t{note.failures}).bind(5, worker_id);
            if (auto done = (*statement)->run(); !done) return done;
        }
        return {};
    });
}

Result<double> OutboxBase::lag_seconds() {
    auto handle = file_.reader();
    if (!handle) return Failure(std::move(handle.error()));
    auto statement = (*handle)->prepared(statements_.lag);
    if (!statement) return Failure(std::move(statement.error()));
    auto found = (*statement)->step();
    if (!found) return Failure(std::move(found.error()));
    const double lag = *found ? std::max(0.0, (*statement)->real(0)) : 0.0;
    (*statement)->reset();
    return lag;
}

Result<OutboxCounts> OutboxBase::counts() {
    auto handle = file_.reader();
    if (!handle) return Failure(std::move(handle.error()));
    auto statement = (*handle)->prepared(statements_.counts);
    if (!statement) return Failure(std::move(statement.error()));
    OutboxCounts counts;
    auto read = each_row(**statement, [&](const SqliteStatement& row) {
        const RowPhase phase = phase_of(row.text(0));
        std::int64_t& count = phase == RowPhase::sent   ? counts.sent
                              : phase == RowPhase::dead ? counts.dead
                                                        : counts.pending;
        count += row.integer(1);
    });
    if (!read) return Failure(std::move(read.error()));
    return counts;
}

Result<void> OutboxBase::ping(Duration deadline) {
    auto handle = file_.reader(deadline);
    if (!handle) return Failure(std::move(handle.error()));
    return (*handle)->run("select count(*) from sqlite_schema");
}

}  // namespace deliverd::store::sqlite
