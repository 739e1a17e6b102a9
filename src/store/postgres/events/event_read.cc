#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/try.h"
#include "store/event_row.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/events/event_outbox.h"
#include "store/postgres/events/statements.h"

namespace deliverd::store::postgres {
namespace {

constexpr std::int64_t kLowestId = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHighestId = std::numeric_limits<std::int64_t>::max();

Result<std::int64_t> position(const char* name, const std::optional<RowId>& id, std::int64_t otherwise) {
    if (!id) return otherwise;
    const auto number = sequence_of(*id);
    if (!number) return bad_argument(std::string(name) + " is not an id of this table");
    return *number;
}

/// The number from which open_writers counts: the first that PostgreSQL gives out.
constexpr std::uint32_t kFirstTransaction = 3;
/// A bound for numbers that are in use and not listed, savepoints included; ordinarily as many as there are writers.
constexpr std::uint32_t kMostUnlisted = 65'536;

/// The answer of `open_writers`. Its snapshot lists the open transactions below the last one that ended. Any number
/// from there to the newest one may be an open transaction too, so all of them count as open.
OpenWriters writers_at(const Row& row) {
    OpenWriters writers;
    std::string_view snapshot = row.text(0);  // "xmin:xmax:xip,…"
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
    // age() counts in 32 bits, which go round, and the snapshot in 64. The two are close to each other, so their
    // difference in 32 bits is the true one.
    const auto next = static_cast<std::uint32_t>(row.get<std::int32_t>(1)) + kFirstTransaction;
    const std::uint32_t count = next - static_cast<std::uint32_t>(unlisted);
    writers.next = unlisted + count;
    for (std::uint64_t i = 0; i < std::min(count, kMostUnlisted); ++i) writers.transactions.push_back(unlisted + i);
    std::ranges::sort(writers.transactions);
    return writers;
}

/// At least 1, so that each part answers one row.
std::int64_t byte_limit(const EventRead& request) {
    return std::max<std::int64_t>(request.byte_limit, 1);
}

/// Limit, byte limit [, after, up to].
Result<Params> forward_params(const EventRead& request, IdKind ids) {
    Params params(request.limit, byte_limit(request));
    if (ids == IdKind::uuid) return params;
    TRY_ASSIGN(auto after, position("after", request.after, kLowestId));
    TRY_ASSIGN(auto up_to, position("up_to", request.up_to, kHighestId));
    params.int64(after).int64(up_to);
    return params;
}

/// Aggregates, positions, limit, byte limit.
Result<Params> follow_params(const EventRead& request, IdKind ids) {
    std::vector<std::string_view> aggregates;
    std::vector<std::int64_t> positions;
    for (const EventFollow& follow : request.follow) {
        aggregates.emplace_back(follow.aggregate_id);
        std::int64_t& after = positions.emplace_back(0);
        if (ids == IdKind::uuid) continue;
        TRY_ASSIGN(after, position("after", follow.after, kLowestId));
    }
    return Params(aggregates, positions, request.follow_limit, byte_limit(request));
}

bool all_shards(const EventTable& table, const std::vector<std::int32_t>& shards) {
    std::vector<bool> asked(static_cast<std::size_t>(table.shards));
    for (const std::int32_t shard : shards) {
        if (shard >= 0 && shard < table.shards) asked[static_cast<std::size_t>(shard)] = true;
    }
    return std::ranges::find(asked, false) == asked.end();
}

EventRow event_at(const Row& row, EventOrigin origin) {
    EventRow out;
    out.origin = origin;
    Message& message = out.message;
    std::optional<std::string> message_id;
    std::string metadata;
    std::optional<WallTime> created_at;
    WallTime now{};
    row.read(out.row_id, message.key, message.type, message.body, message_id, metadata, message.aggregate_type,
             created_at, now, message.failures, out.shard);
    message.message_id = message_id ? std::move(*message_id) : out.row_id;
    if (created_at) {
        message.created_at = rfc3339_micros(*created_at);
        out.age_seconds = std::max(0.0, std::chrono::duration<double>(now - *created_at).count());
    }
    complete_event(out, metadata);
    return out;
}

/// Appends the rows of an answer until they take `byte_limit` in memory: then true.
bool append_event_rows(std::vector<EventRow>& out, const std::vector<Row>& rows, EventOrigin origin,
                       std::int64_t byte_limit) {
    const auto before = static_cast<std::ptrdiff_t>(out.size());
    out.reserve(out.size() + rows.size());
    std::int64_t bytes = 0;
    for (const Row& row : rows) {
        if (bytes >= byte_limit) break;
        out.push_back(event_at(row, origin));
        bytes += static_cast<std::int64_t>(bytes_in_memory(out.back().message));
    }
    // The statements answer due rows by time and followed ones by aggregate; forward rows are in order already.
    if (origin != EventOrigin::forward) {
        std::ranges::stable_sort(out.begin() + before, out.end(), {}, &EventRow::sequence);
    }
    return bytes >= byte_limit;
}

}  // namespace

Result<EventBatch> read_events(Connection& connection, const EventStatements& statements, const EventTable& table,
                               const EventRead& request) {
    const bool numbers = statements.ids == IdKind::number;
    const bool all = all_shards(table, request.shards);
    const ReadStatements& sql = all ? statements.of_all : statements.of_some;
    TRY_ASSIGN(auto follow, follow_params(request, statements.ids));
    TRY_ASSIGN(auto forward, forward_params(request, statements.ids));

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
    if (request.follow_limit > 0 && !request.follow.empty()) {
        parts.push_back({EventOrigin::follow, sql.follow, std::move(follow), batch.follow_cut});
    }
    if (request.limit > 0) parts.push_back({EventOrigin::forward, sql.forward, std::move(forward), batch.forward_cut});
    const bool ends = request.end_above.has_value() && numbers;
    if (parts.empty() && !ends) return batch;
    const bool watched = ends || (request.limit > 0 && numbers);

    std::vector<Step> steps;
    // Writers and rows of one snapshot: a row is either shown, or its writer is among the open ones.
    if (watched) steps.push_back({&fixed_statement(events::sql::one_moment)});
    const std::size_t first = steps.size();
    for (Part& part : parts) {
        if (!all) part.params.array(request.shards);
        if (!statements.own_failures) part.params.text(table.lane);
        steps.push_back({&part.statement, std::move(part.params)});
    }
    if (ends) steps.push_back({&statements.end, Params(*request.end_above)});
    if (watched) steps.push_back({&fixed_statement(events::sql::open_writers)});
    TRY_ASSIGN(auto results, connection.run(steps, Effect::read));
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const PgResult answer = std::move(results[first + i]);  // freed here: a part is in memory twice only meanwhile
        const std::vector<Row> rows = rows_of(answer.get());
        const bool cut_here = append_event_rows(batch.rows, rows, parts[i].origin, byte_limit(request));
        const bool cut_there = !rows.empty() && rows.back().get<std::int64_t>(kEventBytes) >= byte_limit(request);
        parts[i].cut = cut_here || cut_there;
    }
    if (watched) batch.writers = writers_at(Row(results.back().get()));
    if (ends) Row(results[first + parts.size()].get()).read(batch.end);
    return batch;
}

}  // namespace deliverd::store::postgres
