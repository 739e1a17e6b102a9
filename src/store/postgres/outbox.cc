#include "store/postgres/outbox.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/text.h"
#include "client/lease_arguments.h"
#include "store/memory_message.h"
#include "store/settle_batch.h"

namespace deliverd::store::postgres {
namespace {

std::string_view text_at(const PGresult* result, int row, int column) {
    return {PQgetvalue(result, row, column), static_cast<std::size_t>(PQgetlength(result, row, column))};
}

std::optional<std::string> optional_text_at(const PGresult* result, int row, int column) {
    if (PQgetisnull(result, row, column) != 0) return std::nullopt;
    return std::string(text_at(result, row, column));
}

std::int64_t int64_at(const PGresult* result, int row, int column) {
    return read_int64(PQgetvalue(result, row, column));
}

Claimed claimed_at(const PGresult* result, int row) {
    MemoryFields fields;
    fields.outbox_id = int64_at(result, row, kClaimId);
    if (PQgetisnull(result, row, kClaimItemId) == 0) fields.item_id = int64_at(result, row, kClaimItemId);
    fields.target_space = text_at(result, row, kClaimSpace);
    fields.payload_md = text_at(result, row, kClaimPayload);
    fields.payload_sha = text_at(result, row, kClaimSha);
    fields.retry_count = read_int32(PQgetvalue(result, row, kClaimRetryCount));

    Claimed claimed;
    claimed.message = memory_message(fields);
    const std::int64_t due_micros = std::max(int64_at(result, row, kClaimDueAt), kEarliestDueMicros);
    claimed.age_seconds = static_cast<double>(int64_at(result, row, kClaimNow) - due_micros) / 1e6;
    claimed.duplicate = PQgetisnull(result, row, kClaimDuplicateOf) == 0;
    claimed.duplicate_receipt = optional_text_at(result, row, kClaimDuplicateReceipt);
    return claimed;
}

Result<std::int64_t> due_micros(const Cursor& cursor) {
    std::int64_t micros = 0;
    const char* end = cursor.due_at.data() + cursor.due_at.size();
    const auto [stop, fault] = std::from_chars(cursor.due_at.data(), end, micros);
    if (fault != std::errc() || stop != end) return permanent("bad_argument", "cursor is not one of this store's");
    return micros;
}

/// In the order of the primary key, each once.
std::vector<std::int64_t> sorted(std::span<const std::int64_t> ids) {
    std::vector<std::int64_t> out(ids.begin(), ids.end());
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
}

Params settle_params(std::string_view worker_id, std::span<const Settlement> settlements,
                     std::span<const std::size_t> order) {
    std::vector<std::int64_t> ids;
    std::vector<std::int32_t> kinds;
    std::vector<std::optional<std::string>> notes;
    std::vector<double> delays;
    std::vector<std::int32_t> failures;
    ids.reserve(order.size());
    kinds.reserve(order.size());
    notes.reserve(order.size());
    delays.reserve(order.size());
    failures.reserve(order.size());
    for (const std::size_t index : order) {
        const Settlement& settlement = settlements[index];
        ids.push_back(settlement.id);
        kinds.push_back(static_cast<std::int32_t>(settlement.kind));
        notes.push_back(settle_note(settlement));
        delays.push_back(settle_delay_seconds(settlement));
        failures.push_back(settlement.failures_before);
    }
    Params params;
    params.text(worker_id).int64_array(ids).int32_array(kinds).text_array(notes).float64_array(delays).int32_array(
        failures);
    return params;
}

// The settle statement names the kinds by number.
static_assert(static_cast<int>(SettleKind::sent) == 0 && static_cast<int>(SettleKind::duplicate) == 1 &&
              static_cast<int>(SettleKind::retry) == 2 && static_cast<int>(SettleKind::dead) == 3);

}  // namespace

Result<PgResult> PostgresOutbox::run(const Statement& statement, const Params& params, Effect effect) {
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    return (*connection)->run(Step{&statement, &params}, effect, (*connection)->statement_deadline());
}

Result<ClaimBatch> PostgresOutbox::claim(const ClaimRequest& request) {
    const double lease_seconds = to_seconds(request.lease);
    if (auto ok = client::check_claim(request.worker_id, request.limit, lease_seconds); !ok) {
        return Failure(ok.error());
    }
    Params params;
    params.text(request.worker_id).int32(request.limit).float64(lease_seconds);
    if (request.after) {
        auto due = due_micros(*request.after);
        if (!due) return Failure(std::move(due.error()));
        params.int64(*due).int64(request.after->id);
    }
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    static const Params kNone;
    const std::array steps = {Step{&sql_.relax_commit, &kNone},
                              Step{request.after ? &sql_.claim_after : &sql_.claim, &params}};
    auto results = (*connection)->run(steps, Effect::write, (*connection)->statement_deadline());
    if (!results) return Failure(std::move(results.error()));

    const PGresult* rows = results->back().get();
    ClaimBatch batch;
    const int count = PQntuples(rows);
    batch.rows.reserve(static_cast<std::size_t>(count));
    for (int row = 0; row < count; ++row) batch.rows.push_back(claimed_at(rows, row));
    if (count > 0) {
        batch.last = Cursor{std::to_string(int64_at(rows, count - 1, kClaimDueAt)), batch.rows.back().message.id};
    }
    return batch;
}

Result<std::vector<SettleAnswer>> PostgresOutbox::settle(std::string_view worker_id,
                                                         std::span<const Settlement> settlements) {
    if (auto ok = client::check_worker(worker_id); !ok) return Failure(ok.error());
    if (settlements.empty()) return std::vector<SettleAnswer>();
    const std::vector<std::size_t> order = settle_order(settlements);
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    const Params params = settle_params(worker_id, settlements, order);
    const Step step{&sql_.settle, &params, Format::binary, "store.during_settle"};
    auto result = (*connection)->run(step, Effect::write, (*connection)->statement_deadline());
    if (!result) return Failure(std::move(result.error()));

    std::unordered_set<std::int64_t> applied;
    const int count = PQntuples(result->get());
    for (int row = 0; row < count; ++row) applied.insert(int64_at(result->get(), row, 0));
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

Result<void> PostgresOutbox::describe_rest(Connection& connection, std::vector<SettleAnswer>& answers) {
    std::vector<std::int64_t> ids;
    for (const SettleAnswer& answer : answers) {
        if (!answer.applied) ids.push_back(answer.id);
    }
    Params params;
    params.int64_array(ids);
    auto result = connection.run(Step{&sql_.row_states, &params}, Effect::read, connection.statement_deadline());
    if (!result) return Failure(std::move(result.error()));
    std::unordered_map<std::int64_t, RowState> states;
    for (int row = 0; row < PQntuples(result->get()); ++row) {
        const PGresult* r = result->get();
        states[int64_at(r, row, 0)] =
            RowState{phase_of(text_at(r, row, 1)), std::string(text_at(r, row, 1)), read_int32(PQgetvalue(r, row, 2)),
                     optional_text_at(r, row, 3), optional_text_at(r, row, 4)};
    }
    for (SettleAnswer& answer : answers) {
        const auto found = states.find(answer.id);
        if (!answer.applied && found != states.end()) answer.row = found->second;
    }
    return {};
}

Result<PgResult> PostgresOutbox::run_on_ids(const Statement& statement, std::string_view worker_id,
                                            std::span<const std::int64_t> ids) {
    if (auto ok = client::check_worker(worker_id); !ok) return Failure(ok.error());
    if (ids.empty()) return PgResult();
    Params params;
    params.text(worker_id).int64_array(sorted(ids));
    return run(statement, params, Effect::write);
}

Result<RenewAnswer> PostgresOutbox::renew(std::string_view worker_id, std::span<const std::int64_t> ids) {
    auto result = run_on_ids(sql_.renew, worker_id, ids);
    if (!result) return Failure(std::move(result.error()));
    RenewAnswer answer;
    for (int row = 0; row < PQntuples(result->get()); ++row) {
        const bool renewed = *PQgetvalue(result->get(), row, 1) != 0;
        (renewed ? answer.renewed : answer.lost).push_back(int64_at(result->get(), row, 0));
    }
    return answer;
}

Result<std::int64_t> PostgresOutbox::release(std::string_view worker_id, std::span<const std::int64_t> ids) {
    auto released = run_on_ids(sql_.release, worker_id, ids);
    if (!released) return Failure(std::move(released.error()));
    return PQntuples(released->get());
}

Result<void> PostgresOutbox::audit(std::string_view worker_id, std::span<const AuditNote> notes) {
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
    auto result = run(sql_.audit, params, Effect::write);
    if (!result) return Failure(std::move(result.error()));
    return {};
}

Result<double> PostgresOutbox::lag_seconds() {
    auto result = run(sql_.lag, Params(), Effect::read);
    if (!result) return Failure(std::move(result.error()));
    return PQntuples(result->get()) == 0 ? 0.0 : read_float64(PQgetvalue(result->get(), 0, 0));
}

Result<OutboxCounts> PostgresOutbox::counts() {
    auto result = run(sql_.counts, Params(), Effect::read);
    if (!result) return Failure(std::move(result.error()));
    OutboxCounts counts;
    for (int row = 0; row < PQntuples(result->get()); ++row) {
        const std::string_view status = text_at(result->get(), row, 0);
        const std::int64_t count = int64_at(result->get(), row, 1);
        if (status == "pending") counts.pending = count;
        if (status == "sent") counts.sent = count;
        if (status == "dead") counts.dead = count;
    }
    return counts;
}

Result<std::int64_t> PostgresOutbox::remove(std::string_view target_space, std::int64_t first_id,
                                            std::int64_t last_id) {
    Params params;
    params.text(target_space).int64(first_id).int64(last_id);
    auto result = run(sql_.remove, params, Effect::write);
    if (!result) return Failure(std::move(result.error()));
    return int64_at(result->get(), 0, 0);
}

Result<void> PostgresOutbox::ping(Duration deadline) {
    const Deadline until = std::chrono::steady_clock::now() + deadline;
    auto connection = pool_.borrow(until);
    if (!connection) return Failure(std::move(connection.error()));
    const Params none;
    auto result = (*connection)->run(Step{&sql_.ping, &none}, Effect::read, until);
    if (!result) return Failure(std::move(result.error()));
    return {};
}

}  // namespace deliverd::store::postgres
