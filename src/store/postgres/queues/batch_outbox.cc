#include "store/postgres/queues/batch_outbox.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "base/try.h"
#include "client/arguments.h"
#include "store/outbox_row.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/letters/statements.h"
#include "store/postgres/queues/statements.h"

namespace deliverd::store::postgres {
namespace {

/// Each id once, in the order in which all statements lock rows, so that no two of them deadlock.
std::vector<std::int64_t> sorted(std::vector<std::int64_t> ids) {
    std::ranges::sort(ids);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
}

}  // namespace

Result<void> add_position(Params& params, const std::optional<Cursor>& after) {
    constexpr std::int64_t kBeforeAll = std::numeric_limits<std::int64_t>::min();  // as a time: -infinity
    std::int64_t micros = kBeforeAll;
    if (after) {
        const char* end = after->due_at.data() + after->due_at.size();
        const auto [stop, fault] = std::from_chars(after->due_at.data(), end, micros);
        if (fault != std::errc() || stop != end) return bad_argument("the cursor is not one of this store");
    }
    params.int64(micros).int64(after ? after->id : kBeforeAll);
    return {};
}

BatchOutbox::BatchOutbox(Pool& pool, std::string_view schema, std::string lane, const BatchTexts& texts)
    : pool_(pool), sql_(schema, {queues::sql::all, letters::sql::all}), lane_(std::move(lane)), texts_(texts) {}

Result<ClaimBatch> BatchOutbox::run_claim(std::span<const Step> steps,
                                          Claimed (*read)(const PGresult* rows, int row, std::int64_t& due_micros)) {
    TRY_ASSIGN(auto connection, pool_.borrow());
    std::vector<Step> all{relaxed_commit()};  // a claim that a crash forgets is only a retry
    all.insert(all.end(), steps.begin(), steps.end());
    TRY_ASSIGN(auto results, connection->run(all, Effect::write, connection->statement_deadline()));

    ClaimBatch batch;
    const int count = PQntuples(results.back().get());
    batch.rows.reserve(static_cast<std::size_t>(count));
    std::int64_t due_micros = 0;
    for (int row = 0; row < count; ++row) batch.rows.push_back(read(results.back().get(), row, due_micros));
    if (count > 0) batch.last = Cursor{std::to_string(due_micros), batch.rows.back().message.id};
    return batch;
}

Result<std::vector<SettleAnswer>> BatchOutbox::settle(std::string_view worker_id,
                                                      std::span<const Settlement> settlements) {
    TRY(client::check_worker(worker_id));
    if (settlements.empty()) return std::vector<SettleAnswer>();
    TRY_ASSIGN(auto connection, pool_.borrow());
    std::vector<const Settlement*> batch;
    for (const std::size_t index : settle_order(settlements)) batch.push_back(&settlements[index]);
    const Params params = settle_params(worker_id, batch);
    std::vector<Step> steps{Step{&sql_[texts_.settle], &params, Format::binary, "store.during_settle"}};
    std::vector<std::int64_t> dead;
    for (const Settlement& settlement : settlements) {
        if (settlement.kind == SettleKind::dead) dead.push_back(settlement.id);
    }
    // In the same transaction: no row is dead without its letter.
    const Params letters(lane_, worker_id, sorted(dead));
    if (!dead.empty()) steps.push_back(Step{&sql_[texts_.letters], &letters});
    TRY_ASSIGN(auto results, connection->run(steps, Effect::write, connection->statement_deadline()));

    std::unordered_set<std::int64_t> applied;
    const PGresult* settled = results.front().get();
    const int count = PQntuples(settled);
    for (int row = 0; row < count; ++row) applied.insert(int64_at(settled, row, 0));
    std::vector<SettleAnswer> answers;
    answers.reserve(settlements.size());
    for (const Settlement& settlement : settlements) {
        // Erased when found, because a second settlement of the same row did not apply.
        answers.push_back(SettleAnswer{settlement.id, applied.erase(settlement.id) == 1, std::nullopt});
    }
    // Nearly always so. Otherwise the states of the rows cost another round trip.
    if (static_cast<std::size_t>(count) == settlements.size()) return answers;
    if (auto done = read_states(*connection, answers); !done) {
        // The settle itself is committed. Repeating it is safe, and the repeat answers for all rows.
        return ambiguous(done.error().code, std::move(done.error().message));
    }
    return answers;
}

/// A statement of its own after the settle: only few settlements do not apply.
Result<void> BatchOutbox::read_states(Connection& connection, std::vector<SettleAnswer>& answers) {
    std::vector<std::int64_t> ids;
    for (const SettleAnswer& answer : answers) {
        if (!answer.applied) ids.push_back(answer.id);
    }
    const Params params(ids);
    TRY_ASSIGN(auto result,
               connection.run(Step{&sql_[texts_.states], &params}, Effect::read, connection.statement_deadline()));
    std::unordered_map<std::int64_t, RowState> states;
    for (int row = 0; row < PQntuples(result.get()); ++row) {
        std::int64_t id = 0;
        RowState state;
        read_row(result.get(), row, id, state.status, state.failures, state.locked_by, state.last_error);
        state.phase = phase_of(state.status);
        states.emplace(id, std::move(state));
    }
    for (SettleAnswer& answer : answers) {
        const auto found = states.find(answer.id);
        if (!answer.applied && found != states.end()) answer.row = found->second;
    }
    return {};
}

Result<PgResult> BatchOutbox::run_on_ids(std::string_view text, std::string_view worker_id,
                                         std::span<const std::int64_t> ids) {
    TRY(client::check_worker(worker_id));
    if (ids.empty()) return PgResult();
    return run_once(pool_, sql_[text], Params(worker_id, sorted({ids.begin(), ids.end()})), Effect::write);
}

Result<RenewAnswer> BatchOutbox::renew(std::string_view worker_id, std::span<const std::int64_t> ids) {
    TRY_ASSIGN(auto result, run_on_ids(texts_.renew, worker_id, ids));
    RenewAnswer answer;
    for (int row = 0; row < PQntuples(result.get()); ++row) {
        const bool renewed = bool_at(result.get(), row, 1);
        (renewed ? answer.renewed : answer.lost).push_back(int64_at(result.get(), row, 0));
    }
    return answer;
}

Result<std::int64_t> BatchOutbox::release(std::string_view worker_id, std::span<const std::int64_t> ids) {
    TRY_ASSIGN(auto released, run_on_ids(texts_.release, worker_id, ids));
    return PQntuples(released.get());
}

Result<void> BatchOutbox::audit(std::string_view worker_id, std::span<const AuditNote> notes) {
    TRY(client::check_worker(worker_id));
    if (notes.empty()) return {};
    const Params params(
        worker_id, column(notes, &AuditNote::id),
        column(notes, [](const AuditNote& note) { return storable(note.reason); }),
        column(notes, [](const AuditNote& note) { return shorten(storable(note.detail), kMaxStoredErrorBytes); }),
        column(notes, &AuditNote::failures));
    TRY(run_once(pool_, sql_[texts_.audit], params, Effect::write));
    return {};
}

Result<double> BatchOutbox::lag_seconds() {
    TRY_ASSIGN(auto result, run_once(pool_, sql_[texts_.lag], Params(), Effect::read));
    return PQntuples(result.get()) == 0 ? 0.0 : float64_at(result.get(), 0, 0);
}

Result<RowCounts> BatchOutbox::counts() {
    TRY_ASSIGN(auto result, run_once(pool_, sql_[texts_.counts], Params(), Effect::read));
    RowCounts counts;
    for (int row = 0; row < PQntuples(result.get()); ++row) {
        counts.of(text_at(result.get(), row, 0)) += int64_at(result.get(), row, 1);
    }
    return counts;
}

}  // namespace deliverd::store::postgres
