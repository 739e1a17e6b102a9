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

Result<ClaimBatch> BatchOutbox::run_claim(std::vector<Step> steps,
                                          Claimed (*read)(const Row& row, std::int64_t& due_micros)) {
    steps.insert(steps.begin(), relaxed_commit());  // a claim that a crash forgets is only a retry
    TRY_ASSIGN(auto results, run_once(pool_, steps, Effect::write));
    ClaimBatch batch;
    std::int64_t due_micros = 0;
    batch.rows = rows_as(results.back().get(), [&](const Row& row) { return read(row, due_micros); });
    if (!batch.rows.empty()) batch.last = Cursor{std::to_string(due_micros), batch.rows.back().message.id};
    return batch;
}

Result<std::vector<SettleAnswer>> BatchOutbox::settle(std::string_view worker_id,
                                                      std::span<const Settlement> settlements) {
    TRY(client::check_worker(worker_id));
    if (settlements.empty()) return std::vector<SettleAnswer>();
    TRY_ASSIGN(auto connection, pool_.borrow());
    std::vector<const Settlement*> batch;
    for (const std::size_t index : settle_order(settlements)) batch.push_back(&settlements[index]);
    std::vector<Step> steps;
    steps.push_back({&sql_[texts_.settle], settle_params(worker_id, batch), Format::binary, "store.during_settle"});
    std::vector<std::int64_t> dead;
    for (const Settlement& settlement : settlements) {
        if (settlement.kind == SettleKind::dead) dead.push_back(settlement.id);
    }
    // In the same transaction: no row is dead without its letter.
    if (!dead.empty()) steps.push_back({&sql_[texts_.letters], Params(lane_, worker_id, sorted(dead))});
    TRY_ASSIGN(auto results, connection->run(steps, Effect::write));

    const std::vector<Row> settled = rows_of(results.front().get());
    std::unordered_set<std::int64_t> applied;
    for (const Row& row : settled) applied.insert(row.get<std::int64_t>());
    std::vector<SettleAnswer> answers;
    answers.reserve(settlements.size());
    for (const Settlement& settlement : settlements) {
        // Erased when found, because a second settlement of the same row did not apply.
        answers.push_back(SettleAnswer{settlement.id, applied.erase(settlement.id) == 1, std::nullopt});
    }
    // Nearly always so. Otherwise the states of the rows cost another round trip.
    if (settled.size() == settlements.size()) return answers;
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
    TRY_ASSIGN(auto result, connection.run(Step{&sql_[texts_.states], Params(ids)}, Effect::read));
    std::unordered_map<std::int64_t, RowState> states;
    for (const Row& row : rows_of(result.get())) {
        states.emplace(row.get<std::int64_t>(), row_state_at(row, 1));
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
    for (const Row& row : rows_of(result.get())) {
        (row.get<bool>(1) ? answer.renewed : answer.lost).push_back(row.get<std::int64_t>());
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
    return PQntuples(result.get()) == 0 ? 0.0 : Row(result.get()).get<double>();
}

Result<RowCounts> BatchOutbox::counts() {
    TRY_ASSIGN(auto result, run_once(pool_, sql_[texts_.counts], Params(), Effect::read));
    RowCounts counts;
    for (const Row& row : rows_of(result.get())) counts.of(row.text(0)) += row.get<std::int64_t>(1);
    return counts;
}

}  // namespace deliverd::store::postgres
