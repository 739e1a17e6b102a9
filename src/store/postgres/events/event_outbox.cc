#include "store/postgres/events/event_outbox.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "base/try.h"
#include "deliverd/error_codes.h"
#include "store/event_row.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/events/event_ids.h"
#include "store/postgres/events/event_listener.h"
#include "store/postgres/events/event_rows.h"
#include "store/postgres/events/event_settle.h"
#include "store/postgres/events/statements.h"

namespace deliverd::store::postgres {
namespace {

constexpr std::int64_t kFirstId = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kLastId = std::numeric_limits<std::int64_t>::max();

Step without_parameters(std::string_view text) {
    static const Statements kStatements("", {events::sql::all});
    static const Params kNone;
    return Step{&kStatements[text], &kNone};
}

Result<void> check_read(const EventRead& request) {
    for (const auto& [name, value] : {std::pair("limit", request.limit), std::pair("due_limit", request.due_limit),
                                      std::pair("follow_limit", request.follow_limit)}) {
        if (value < 0) return permanent(codes::kBadArgument, std::string(name) + " must not be negative");
    }
    return {};
}

Result<std::int64_t> position(const char* name, const std::optional<RowId>& id, std::int64_t otherwise) {
    if (!id) return otherwise;
    const auto number = parse_number(*id);
    if (!number) return permanent(codes::kBadArgument, std::string(name) + " is not an id of this table");
    return *number;
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
    Params params(request.limit, byte_limit(request));
    if (ids == IdKind::uuid) return params;
    TRY_ASSIGN(auto after, position("after", request.after, kFirstId));
    TRY_ASSIGN(auto up_to, position("up_to", request.up_to, kLastId));
    params.int64(after).int64(up_to);
    return params;
}

/// Aggregates [, positions], limit, byte limit.
Result<Params> follow_params(const EventRead& request, IdKind ids) {
    std::vector<std::optional<std::string>> aggregates;
    std::vector<std::int64_t> positions;
    for (const EventFollow& follow : request.follow) {
        TRY_ASSIGN(auto after,
                   ids == IdKind::uuid ? Result<std::int64_t>(0) : position("after", follow.after, kFirstId));
        aggregates.emplace_back(follow.aggregate_id);
        positions.push_back(after);
    }
    Params params(aggregates);
    if (ids == IdKind::number) params.int64_array(positions);
    params.int32(request.follow_limit).int64(byte_limit(request));
    return params;
}

}  // namespace

Result<PostgresEventOutbox::TableStatementsPtr> PostgresEventOutbox::table_statements(Connection& connection) {
    {
        const MutexLock lock(mutex_);
        if (prepared_ != nullptr) return prepared_;
    }
    TRY_ASSIGN(auto shape, read_shape(connection, place_, table_.columns));
    TRY(check_shape(shape, place_, table_.columns));
    EventStatements sql(table_, place_, shape, schema_);
    auto made = std::make_shared<const TableStatements>(TableStatements{std::move(shape), std::move(sql)});
    const MutexLock lock(mutex_);
    prepared_ = made;
    return made;
}

void PostgresEventOutbox::forget_if_changed(const Error& error) {
    if (error.code != codes::kDbError) return;
    const MutexLock lock(mutex_);
    prepared_ = nullptr;
}

bool PostgresEventOutbox::all_shards(const std::vector<std::int32_t>& shards) const {
    std::vector<bool> asked(static_cast<std::size_t>(table_.shards));
    for (const std::int32_t shard : shards) {
        if (shard >= 0 && shard < table_.shards) asked[static_cast<std::size_t>(shard)] = true;
    }
    return std::ranges::find(asked, false) == asked.end();
}

Result<EventBatch> PostgresEventOutbox::read(const EventRead& request) {
    TRY(check_read(request));
    if (request.shards.empty()) return EventBatch();
    TRY_ASSIGN(auto connection, pool_.borrow());
    TRY_ASSIGN(auto table, table_statements(*connection));
    const bool all = all_shards(request.shards);
    const ReadStatements& sql = all ? table->sql.of_all : table->sql.of_some;

    EventBatch batch;
    struct Part {
        EventOrigin origin;
        const Statement& statement;
        Params params;
        bool& cut;
    };
    std::vector<Part> parts;
    if (request.due_limit > 0) {
        parts.push_back({EventOrigin::due, sql.due, Params(request.due_limit, byte_limit(request)), batch.due_cut});
    }
    TRY_ASSIGN(auto follow, follow_params(request, table->sql.ids));
    if (request.follow_limit > 0 && !request.follow.empty()) {
        parts.push_back({EventOrigin::follow, sql.follow, std::move(follow), batch.follow_cut});
    }
    TRY_ASSIGN(auto forward, forward_params(request, table->sql.ids));
    if (request.limit > 0) parts.push_back({EventOrigin::forward, sql.forward, std::move(forward), batch.forward_cut});
    const bool ends = request.end_above.has_value() && table->sql.ids == IdKind::number;
    if (parts.empty() && !ends) return batch;
    const bool watched = ends || (request.limit > 0 && table->sql.ids == IdKind::number);

    std::vector<Step> steps;
    if (watched) steps.push_back(without_parameters(events::sql::one_moment));
    const std::size_t first = steps.size();
    for (Part& part : parts) {
        if (!all) part.params.int32_array(request.shards);
        if (!table->sql.own_failures) part.params.text(table_.lane);
        steps.push_back(Step{&part.statement, &part.params});
    }
    const Params above(request.end_above.value_or(0));
    if (ends) steps.push_back(Step{&table->sql.end, &above});
    if (watched) steps.push_back(without_parameters(events::sql::open_writers));
    auto results = connection->run(steps, Effect::read, connection->statement_deadline());
    if (!results) {
        forget_if_changed(results.error());
        return Failure(std::move(results.error()));
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const PgResult answer = std::move((*results)[first + i]);  // its rows are in memory twice only meanwhile
        const int rows = PQntuples(answer.get());
        const bool short_of_all = append_event_rows(batch.rows, answer.get(), parts[i].origin,
                                                    parts[i].origin == EventOrigin::forward, byte_limit(request));
        parts[i].cut =
            short_of_all || (rows > 0 && int64_at(answer.get(), rows - 1, kEventBytes) >= byte_limit(request));
    }
    if (watched) batch.writers = writers_of(results->back().get());
    if (ends) read_cell((*results)[first + parts.size()].get(), 0, 0, batch.end);
    return batch;
}

Result<std::vector<EventSettled>> PostgresEventOutbox::settle(std::string_view owner,
                                                              std::span<const EventSettlement> settlements) {
    TRY(check_owner(owner));
    if (settlements.empty()) return std::vector<EventSettled>();
    TRY_ASSIGN(auto connection, pool_.borrow());
    TRY_ASSIGN(auto table, table_statements(*connection));
    auto answers = settle_events(*connection, table->sql, table_.lane, owner, settlements);
    if (!answers) forget_if_changed(answers.error());
    return answers;
}

std::unique_ptr<EventListener> PostgresEventOutbox::listen(std::function<void()> on_event) {
    return make_event_listener(pool_.options(), log_, std::move(on_event));
}

Result<double> PostgresEventOutbox::lag_seconds() {
    TRY_ASSIGN(auto connection, pool_.borrow());
    TRY_ASSIGN(auto table, table_statements(*connection));
    const bool anew = lag_looks_.fetch_add(1) % kLagLooksFromTheBeginning == 0;
    Params params;
    if (table->sql.ids == IdKind::number) params.int64(anew ? kFirstId : lag_from_.load());
    if (!table->sql.own_failures) params.text(table_.lane);
    auto result = connection->run(Step{&table->sql.lag, &params}, Effect::read, connection->statement_deadline());
    if (!result) {
        forget_if_changed(result.error());
        return Failure(std::move(result.error()));
    }
    if (PQntuples(result->get()) == 0) return 0.0;
    lag_from_ = int64_at(result->get(), 0, 1);
    return std::max(0.0, float64_at(result->get(), 0, 0));
}

Result<RowCounts> PostgresEventOutbox::counts() {
    TRY_ASSIGN(auto connection, pool_.borrow());
    TRY_ASSIGN(auto table, table_statements(*connection));
    const Params params = table->sql.own_failures ? Params() : Params(table_.lane);
    const std::array steps = {without_parameters(events::sql::whole_table), Step{&table->sql.counts, &params}};
    auto results = connection->run(steps, Effect::read, connection->statement_deadline());
    if (!results) {
        forget_if_changed(results.error());
        return Failure(std::move(results.error()));
    }
    const PGresult* row = results->back().get();
    return RowCounts{int64_at(row, 0, 0), int64_at(row, 0, 1), int64_at(row, 0, 2)};
}

Result<void> PostgresEventOutbox::ping(Duration deadline) {
    return ping_server(pool_, deadline);
}

Result<std::int64_t> PostgresEventOutbox::remove_published(Duration age, std::int32_t limit) {
    if (age < Duration::zero()) return permanent(codes::kBadArgument, "age must not be negative");
    if (limit < 1) return permanent(codes::kBadArgument, "limit must be at least 1");
    TRY_ASSIGN(auto connection, pool_.borrow());
    TRY_ASSIGN(auto table, table_statements(*connection));
    auto removed = cleanup_.remove(*connection, table->shape, age, limit);
    if (!removed) forget_if_changed(removed.error());
    return removed;
}

Result<std::vector<Finding>> PostgresEventOutbox::inspect() {
    TRY_ASSIGN(auto connection, pool_.borrow());
    TRY_ASSIGN(auto shape, read_shape(*connection, place_, table_.columns));
    return findings_of(shape, place_, table_.columns);
}

}  // namespace deliverd::store::postgres
