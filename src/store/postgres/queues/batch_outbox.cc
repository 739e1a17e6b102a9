#include "store/postgres/queues/batch_outbox.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "client/lease_arguments.h"
#include "store/memory_message.h"
#include "store/postgres/connection/cells.h"
#include "store/settle_batch.h"

namespace deliverd::store::postgres {
namespace {

/// In the order of the primary key, each once.
std::vector<std::int64_t> sorted(std::span<const std::int64_t> ids) {
    std::vector<std::int64_t> out(ids.begin(), ids.end());
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
}

std::vector<std::int64_t> given_up(std::span<const Settlement> settlements) {
    std::vector<std::int64_t> ids;
    for (const Settlement& settlement : settlements) {
        if (settlement.kind == SettleKind::dead) ids.push_back(settlement.id);
    }
    return sorted(ids);
}

}  // namespace

Result<void> add_position(Params& params, const std::optional<Cursor>& after) {
    if (!after) return {};
    std::int64_t micros = 0;
    const char* end = after->due_at.data() + after->due_at.size();
    const auto [stop, fault] = std::from_chars(after->due_at.data(), end, micros);
    if (fault != std::errc() || stop != end) return permanent("bad_argument", "cursor is not one of this store's");
    params.int64(micros).int64(after->id);
    return {};
}

Result<ClaimBatch> BatchOutbox::run_claim(std::span<const Step> steps, const ClaimReader& reader) {
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    std::vector<Step> all{relaxed_commit()};
    all.insert(all.end(), steps.begin(), steps.end());
    auto results = (*connection)->run(all, Effect::write, (*connection)->statement_deadline());
    if (!results) return Failure(std::move(results.error()));

    const PGresult* rows = results->back().get();
    ClaimBatch batch;
    const int count = PQntuples(rows);
    batch.rows.reserve(static_cast<std::size_t>(count));
    for (int row = 0; row < count; ++row) batch.rows.push_back(reader.row(rows, row));
    if (count == 0) return batch;
    batch.last = Cursor{std::to_string(int64_at(rows, count - 1, reader.due_column)),
                        int64_at(rows, count - 1, reader.id_column)};
    return batch;
}

Result<std::vector<SettleAnswer>> BatchOutbox::settle(std::string_view worker_id,
                                                      std::span<const Settlement> settlements) {
    if (auto ok = client::check_worker(worker_id); !ok) return Failure(ok.error());
    if (settlements.empty()) return std::vector<SettleAnswer>();
    const std::vector<std::size_t> order = settle_order(settlements);
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    const Params params = settle_params(worker_id, settlements, order);
    std::vector<Step> steps{Step{&statements().settle, &params, Format::binary, "store.during_settle"}};
    const std::vector<std::int64_t> dead = given_up(settlements);
    Params letters;
    letters.text(lane_).text(worker_id).int64_array(dead);
    if (!dead.empty()) steps.push_back(Step{&statements().letters, &letters});
    auto results = (*connection)->run(steps, Effect::write, (*connection)->statement_deadline());
    if (!results) return Failure(std::move(results.error()));

    std::unordered_set<std::int64_t> applied;
    const PGresult* settled = results->front().get();
    const int count = PQntuples(settled);
    for (int row = 0; row < count; ++row) applied.insert(int64_at(settled, row, 0));
    std::vector<SettleAnswer> answers;
    answers.reserve(settlements.size());
    for (const Settlement& settlement : settlements) {
        // Erased when found: a second settlement of the same row did not apply.
        answers.push_back(SettleAnswer{settlement.id, applied.erase(settlement.id) == 1, std::nullopt});
    }
    if (static_cast<std::size_t>(count) == settlements.size()) return answers;
    if (auto done = describe_rest(**connection, answers); !done) {
        // The settle itself is committed. Repeating it is safe, and then finds out what stands in the others.
        return ambiguous(done.error().code, std::move(done.error().message));
    }
    return answers;
}

Result<void> BatchOutbox::describe_rest(Connection& connection, std::vector<SettleAnswer>& answers) {
    std::vector<std::int64_t> ids;
    for (const SettleAnswer& answer : answers) {
        if (!answer.applied) ids.push_back(answer.id);
    }
    Params params;
    params.int64_array(ids);
    auto result =
        connection.run(Step{&statements().row_states, &params}, Effect::read, connection.statement_deadline());
    if (!result) return Failure(std::move(result.error()));
    std::unordered_map<std::int64_t, RowState> states;
    for (int row = 0; row < PQntuples(result->get()); ++row) {
        const PGresult* r = result->get();
        states[int64_at(r, row, 0)] =
            RowState{phase_of(text_at(r, row, 1)), std::string(text_at(r, row, 1)), int32_at(r, row, 2),
                     optional_text_at(r, row, 3), optional_text_at(r, row, 4)};
    }
    for (SettleAnswer& answer : answers) {
        const auto found = states.find(answer.id);
        if (!answer.applied && found != states.end()) answer.row = found->second;
    }
    return {};
}

Result<PgResult> BatchOutbox::run_on_ids(const Statement& statement, std::string_view worker_id,
                                         std::span<const std::int64_t> ids) {
    if (auto ok = client::check_worker(worker_id); !ok) return Failure(ok.error());
    if (ids.empty()) return PgResult();
    Params params;
    params.text(worker_id).int64_array(sorted(ids));
    return run_once(pool_, statement, params, Effect::write);
}

Result<RenewAnswer> BatchOutbox::renew(std::string_view worker_id, std::span<const std::int64_t> ids) {
    auto result = run_on_ids(statements().renew, worker_id, ids);
    if (!result) return Failure(std::move(result.error()));
    RenewAnswer answer;
    for (int row = 0; row < PQntuples(result->get()); ++row) {
        const bool renewed = bool_at(result->get(), row, 1);
        (renewed ? answer.renewed : answer.lost).push_back(int64_at(result->get(), row, 0));
    }
    return answer;
}

Result<std::int64_t> BatchOutbox::release(std::string_view worker_id, std::span<const std::int64_t> ids) {
    auto released = run_on_ids(statements().release, worker_id, ids);
    if (!released) return Failure(std::move(released.error()));
    return PQntuples(released->get());
}

Result<void> BatchOutbox::audit(std::string_view worker_id, std::span<const AuditNote> notes) {
    if (auto ok = client::check_worker(worker_id); !ok) return Failure(ok.error());
    if (notes.empty()) return {};
    std::vector<std::int64_t> ids;
    std::vector<std::optional<std::string>> reasons;
    std::vector<std::optional<std::string>> details;
    std::vector<std::int32_t> counts;
    for (const AuditNote& note : notes) {
        ids.push_back(note.id);
        reasons.emplace_back(storable(note.reason));
        details.emplace_back(shorten(storable(note.detail), kMaxStoredErrorBytes));
        counts.push_back(note.failures);
    }
    Params params;
    params.text(worker_id).int64_array(ids).text_array(reasons).text_array(details).int32_array(counts);
    auto result = run_once(pool_, statements().audit, params, Effect::write);
    if (!result) return Failure(std::move(result.error()));
    return {};
}

Result<double> BatchOutbox::lag_seconds() {
    auto result = run_once(pool_, statements().lag, Params(), Effect::read);
    if (!result) return Failure(std::move(result.error()));
    return PQntuples(result->get()) == 0 ? 0.0 : float64_at(result->get(), 0, 0);
}

Result<OutboxCounts> BatchOutbox::counts() {
    auto result = run_once(pool_, statements().counts, Params(), Effect::read);
    if (!result) return Failure(std::move(result.error()));
    OutboxCounts counts;
    for (int row = 0; row < PQntuples(result->get()); ++row) {
        const RowPhase phase = phase_of(text_at(result->get(), row, 0));
        std::int64_t& sum = phase == RowPhase::open   ? counts.pending
                            : phase == RowPhase::sent ? counts.sent
                                                      : counts.dead;
        sum += int64_at(result->get(), row, 1);
    }
    return counts;
}

}  // namespace deliverd::store::postgres
