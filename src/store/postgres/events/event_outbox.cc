#include "store/postgres/events/event_outbox.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "store/event_row.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/events/event_ids.h"
#include "store/postgres/events/event_listener.h"
#include "store/postgres/events/event_rows.h"
#include "store/postgres/events/event_settle.h"

namespace deliverd::store::postgres {
namespace {

constexpr std::int64_t kFirstId = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kLastId = std::numeric_limits<std::int64_t>::max();

/// For a statement that is to read the whole table: the lanes' planner settings are for looking rows up.
Step whole_table() {
    static const Statement kWhole{"whole_table",
                                  "select set_config('enable_seqscan', 'on', true),"
                                  " set_config('enable_hashjoin', 'on', true)"};
    static const Params kNone;
    return Step{&kWhole, &kNone};
}

Result<void> check_read(const EventRead& request) {
    for (const auto& [name, value] : {std::pair("limit", request.limit), std::pair("due_limit", request.due_limit),
                                      std::pair("follow_limit", request.follow_limit)}) {
        if (value < 0) return permanent("bad_argument", std::string(name) + " must not be negative");
    }
    return {};
}

Result<std::int64_t> position(const char* name, const std::optional<RowId>& id, std::int64_t otherwise) {
    if (!id) return otherwise;
    const auto number = parse_number(*id);
    if (!number) return permanent("bad_argument", std::string(name) + " is not an id of this table");
    return *number;
}

/// All that follows sees the table as of one moment.
Step one_moment() {
    static const Statement kOneMoment{"one_moment", "set transaction_isolation = 'repeatable read'"};
    static const Params kNone;
    return Step{&kOneMoment, &kNone};
}

/// "xmin:xmax:xip,…", numbers that do not go round; and how far the next number to be given out is from the first.
/// xmax is behind the last that *ended*: what was open from there on is not in the list. Asked last, so that the next
/// number is not older than the snapshot.
Step open_writers() {
    static const Statement kOpen{"open_writers", "select pg_current_snapshot()::text, age('3'::xid)"};
    static const Params kNone;
    return Step{&kOpen, &kNone};
}
constexpr std::uint32_t kFirstTransaction = 3;
/// Beyond the last one that ended, savepoints included; ordinarily as many as there are writers.
constexpr std::uint32_t kMostUnlisted = 65'536;

OpenWriters writers_of(const PGresult* result) {
    OpenWriters writers;
    std::string_view snapshot = text_at(result, 0, 0);
    const auto next_number = [&snapshot] {
        std::uint64_t number = 0;
        const auto read = std::from_chars(snapshot.data(), snapshot.data() + snapshot.size(), number);
        snapshot.remove_prefix(static_cast<std::size_t>(read.ptr - snapshot.data()));
        snapshot.remove_prefix(std::min<std::size_t>(snapshot.size(), 1));
        return number;
    };
    next_number();
    const std::uint64_t unlisted = next_number();
    while (!snapshot.empty()) writers.transactions.push_back(next_number());
    const auto next = static_cast<std::uint32_t>(int32_at(result, 0, 1)) + kFirstTransaction;
    const std::uint32_t count = next - static_cast<std::uint32_t>(unlisted);
    writers.next = unlisted + count;
    for (std::uint64_t i = 0; i < std::min(count, kMostUnlisted); ++i) writers.transactions.push_back(unlisted + i);
    std::ranges::sort(writers.transactions);
    return writers;
}

std::int64_t byte_limit(const EventRead& request) {
    return std::max<std::int64_t>(request.byte_limit, 1);
}

/// Limit, byte limit [, after, up to].
Result<Params> forward_params(const EventRead& request, IdKind ids) {
    Params params;
    params.int32(request.limit).int64(byte_limit(request));
    if (ids == IdKind::uuid) return params;
    auto after = position("after", request.after, kFirstId);
    if (!after) return Failure(std::move(after.error()));
    auto up_to = position("up_to", request.up_to, kLastId);
    if (!up_to) return Failure(std::move(up_to.error()));
    params.int64(*after).int64(*up_to);
    return params;
}

/// Aggregates [, positions], limit, byte limit.
Result<Params> follow_params(const EventRead& request, IdKind ids) {
    std::vector<std::optional<std::string>> aggregates;
    std::vector<std::int64_t> positions;
    for (const EventFollow& follow : request.follow) {
        auto after = ids == IdKind::uuid ? Result<std::int64_t>(0) : position("after", follow.after, kFirstId);
        if (!after) return Failure(std::move(after.error()));
        aggregates.emplace_back(follow.aggregate_id);
        positions.push_back(*after);
    }
    Params params;
    params.text_array(aggregates);
    if (ids == IdKind::number) params.int64_array(positions);
    params.int32(request.follow_limit).int64(byte_limit(request));
    return params;
}

}  // namespace

Result<PostgresEventOutbox::KnownPtr> PostgresEventOutbox::known(Connection& connection) {
    {
        const std::lock_guard lock(mutex_);
        if (known_ != nullptr) return known_;
    }
    auto shape = read_shape(connection, place_, table_.columns);
    if (!shape) return Failure(std::move(shape.error()));
    if (auto ok = check_shape(*shape, place_, table_.columns); !ok) return Failure(std::move(ok.error()));
    EventStatements sql(table_, place_, *shape, schema_);
    auto made = std::make_shared<const Known>(Known{std::move(*shape), std::move(sql)});
    const std::lock_guard lock(mutex_);
    known_ = made;
    return made;
}

void PostgresEventOutbox::forget_if_changed(const Error& error) {
    if (error.code != "db_error") return;
    const std::lock_guard lock(mutex_);
    known_ = nullptr;
}

bool PostgresEventOutbox::all_shards(const std::vector<std::int32_t>& shards) const {
    std::vector<bool> asked(static_cast<std::size_t>(table_.shards));
    for (const std::int32_t shard : shards) {
        if (shard >= 0 && shard < table_.shards) asked[static_cast<std::size_t>(shard)] = true;
    }
    return std::ranges::find(asked, false) == asked.end();
}

void PostgresEventOutbox::add_tail(Params& params, const Known& known, const EventRead& request, bool all) const {
    if (!all) params.int32_array(request.shards);
    if (!known.sql.own_failures) params.text(table_.lane);
}

Result<EventBatch> PostgresEventOutbox::read(const EventRead& request) {
    if (auto ok = check_read(request); !ok) return Failure(std::move(ok.error()));
    if (request.shards.empty()) return EventBatch();
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    auto known = this->known(**connection);
    if (!known) return Failure(std::move(known.error()));
    const bool all = all_shards(request.shards);
    const ReadStatements& sql = all ? (*known)->sql.of_all : (*known)->sql.of_some;

    struct Part {
        EventOrigin origin;
        Step step;
    };
    std::array<Params, 3> params;
    std::vector<Part> parts;
    if (request.due_limit > 0) {
        params[0].int32(request.due_limit).int64(byte_limit(request));
        parts.push_back({EventOrigin::due, Step{&sql.due, &params[0]}});
    }
    auto follow = follow_params(request, (*known)->sql.ids);
    if (!follow) return Failure(std::move(follow.error()));
    if (request.follow_limit > 0 && !request.follow.empty()) {
        params[1] = std::move(*follow);
        parts.push_back({EventOrigin::follow, Step{&sql.follow, &params[1]}});
    }
    auto forward = forward_params(request, (*known)->sql.ids);
    if (!forward) return Failure(std::move(forward.error()));
    if (request.limit > 0) {
        params[2] = std::move(*forward);
        parts.push_back({EventOrigin::forward, Step{&sql.forward, &params[2]}});
    }
    EventBatch batch;
    const bool ends = request.end_above.has_value() && (*known)->sql.ids == IdKind::number;
    if (parts.empty() && !ends) return batch;
    for (Params& each : params) add_tail(each, **known, request, all);
    const bool watched = ends || (request.limit > 0 && (*known)->sql.ids == IdKind::number);
    std::vector<Step> steps;
    for (const Part& part : parts) steps.push_back(part.step);
    Params above;
    if (ends) steps.push_back(Step{&(*known)->sql.end, &above.int64(*request.end_above)});
    if (watched) {
        steps.push_back(open_writers());
        steps.insert(steps.begin(), one_moment());
    }
    auto results = (*connection)->run(steps, Effect::read, (*connection)->statement_deadline());
    if (!results) {
        forget_if_changed(results.error());
        return Failure(std::move(results.error()));
    }
    const std::size_t first = watched ? 1 : 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const PgResult answer = std::move((*results)[first + i]);  // its rows are in memory twice only meanwhile
        const bool short_of_all = append_event_rows(batch.rows, answer.get(), parts[i].origin,
                                                    parts[i].origin == EventOrigin::forward, byte_limit(request));
        const int rows = PQntuples(answer.get());
        const bool cut =
            short_of_all || (rows > 0 && int64_at(answer.get(), rows - 1, kEventBytes) >= byte_limit(request));
        (parts[i].origin == EventOrigin::due      ? batch.due_cut
         : parts[i].origin == EventOrigin::follow ? batch.follow_cut
                                                  : batch.forward_cut) = cut;
    }
    if (watched) batch.writers = writers_of(results->back().get());
    if (ends) {
        const PGresult* end = (*results)[first + parts.size()].get();
        if (!null_at(end, 0, 0)) batch.end = int64_at(end, 0, 0);
    }
    return batch;
}

Result<std::vector<EventSettled>> PostgresEventOutbox::settle(std::string_view owner,
                                                              std::span<const EventSettlement> settlements) {
    if (auto ok = check_owner(owner); !ok) return Failure(std::move(ok.error()));
    if (settlements.empty()) return std::vector<EventSettled>();
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    auto known = this->known(**connection);
    if (!known) return Failure(std::move(known.error()));
    auto answers = settle_events(**connection, (*known)->sql, table_.lane, owner, settlements);
    if (!answers) forget_if_changed(answers.error());
    return answers;
}

std::unique_ptr<EventListener> PostgresEventOutbox::listen(std::function<void()> on_event) {
    return make_event_listener(pool_.options(), log_, std::move(on_event));
}

Result<double> PostgresEventOutbox::lag_seconds() {
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    auto known = this->known(**connection);
    if (!known) return Failure(std::move(known.error()));
    const bool anew = lag_looks_.fetch_add(1) % kLagLooksFromTheBeginning == 0;
    Params params;
    if ((*known)->sql.ids == IdKind::number) params.int64(anew ? kFirstId : lag_from_.load());
    if (!(*known)->sql.own_failures) params.text(table_.lane);
    auto result =
        (*connection)->run(Step{&(*known)->sql.lag, &params}, Effect::read, (*connection)->statement_deadline());
    if (!result) {
        forget_if_changed(result.error());
        return Failure(std::move(result.error()));
    }
    if (PQntuples(result->get()) == 0) return 0.0;
    lag_from_ = int64_at(result->get(), 0, 1);
    return std::max(0.0, float64_at(result->get(), 0, 0));
}

Result<OutboxCounts> PostgresEventOutbox::counts() {
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    auto known = this->known(**connection);
    if (!known) return Failure(std::move(known.error()));
    Params params;
    if (!(*known)->sql.own_failures) params.text(table_.lane);
    const std::array steps = {whole_table(), Step{&(*known)->sql.counts, &params}};
    auto results = (*connection)->run(steps, Effect::read, (*connection)->statement_deadline());
    if (!results) {
        forget_if_changed(results.error());
        return Failure(std::move(results.error()));
    }
    const PGresult* row = results->back().get();
    return OutboxCounts{int64_at(row, 0, 0), int64_at(row, 0, 1), int64_at(row, 0, 2)};
}

Result<void> PostgresEventOutbox::ping(Duration deadline) {
    return ping_server(pool_, deadline);
}

Result<std::int64_t> PostgresEventOutbox::remove_published(Duration age, std::int32_t limit) {
    if (age < Duration::zero()) return permanent("bad_argument", "age must not be negative");
    if (limit < 1) return permanent("bad_argument", "limit must be at least 1");
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    auto known = this->known(**connection);
    if (!known) return Failure(std::move(known.error()));
    auto removed = cleanup_.remove(**connection, (*known)->shape, age, limit);
    if (!removed) forget_if_changed(removed.error());
    return removed;
}

Result<std::vector<Finding>> PostgresEventOutbox::inspect() {
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    auto shape = read_shape(**connection, place_, table_.columns);
    if (!shape) return Failure(std::move(shape.error()));
    return findings_of(*shape, place_, table_.columns);
}

}  // namespace deliverd::store::postgres
