#include "store/postgres/events/event_cleanup.h"

#include <array>
#include <utility>

#include "store/postgres/connection/cells.h"
#include "store/postgres/events/event_sql.h"
#include "store/settle_batch.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

constexpr const char* kLowestNumber = "-9223372036854775808";
constexpr std::string_view kQueryCanceled = "57014";
constexpr const char* kLowestUuid = "00000000-0000-0000-0000-000000000000";

/// After this id, rows to look at, age in seconds, rows to delete. Answers how many were deleted, the last id looked
/// at, how many were looked at, and how many of these were published but are young.
constexpr std::string_view kRemoveEvents = R"(
with look as materialized (
    select o.@id as id, o.@published as published,
           o.@published and o.@at < now() - $3::float8 * interval '1 second' as old
    from @table o
    where o.@id > $1::@type
    order by o.@id
    limit $2::int
), old as materialized (
    select o.@id as id
    from look l
    join @table o on o.@id = l.id
    where l.old and o.@published
    order by o.@id
    limit $4::int
    for update of o skip locked
), gone as (
    delete from @table o using old where o.@id = old.id returning 1
)
select (select count(*) from gone), (select id::text from look order by id desc limit 1), (select count(*) from look),
       (select count(*) from look where published and not old))";

/// Table, columns of id, published and published_at, age in seconds.
const Statement kFindPartition{
    "events_find_partition",
    "select child::oid::int8, rows from deliverd.published_partition("
    "$1::text::regclass, $2::text::name, $3::text::name, $4::text::name, $5::float8 * interval '1 second')"};

const Statement kBrief{"events_brief",
                       "select set_config('lock_timeout', $1::text, true), set_config('statement_timeout', $2::text, "
                       "true)"};

/// Table, partition, column of published.
const Statement kDropPartition{
    "events_drop_partition",
    "select deliverd.drop_published_partition($1::text::regclass, $2::int8::oid::regclass, $3::text::name)"};

double age_seconds(Duration age) {
    return std::min(to_seconds(age), kMaxDelaySeconds);
}

Finding finding(std::string check, bool ok, std::string message) {
    return Finding{std::move(check), ok, std::move(message)};
}

}  // namespace

EventCleanup::EventCleanup(const EventTable& table, const TablePlace& place) : place_(place), columns_(table.columns) {}

Result<std::int64_t> EventCleanup::remove(Connection& connection, const EventShape& shape, Duration age,
                                          std::int32_t limit) {
    if (columns_.published.empty() || columns_.published_at.empty()) return 0;
    const IdKind ids = id_kind(shape, columns_);
    if (shape.range_partitioned && ids == IdKind::number &&
        std::chrono::steady_clock::now() >= partitions_again_.load()) {
        auto dropped = drop_partition(connection, age);
        if (!dropped || *dropped > 0) return dropped;
    }
    return remove_rows(connection, ids, age, limit);
}

Result<std::int64_t> EventCleanup::drop_partition(Connection& connection, Duration age) {
    Params find;
    find.text(place_.quoted_name()).text(columns_.id).text(columns_.published).text(columns_.published_at);
    find.float64(age_seconds(age));
    auto found = connection.run(Step{&kFindPartition, &find}, Effect::read, connection.statement_deadline());
    if (!found && connection.usable() && connection.refused_with() == kQueryCanceled) {
        partitions_again_ = std::chrono::steady_clock::now() + kPartitionPause;
        return 0;
    }
    if (!found) return Failure(std::move(found.error()));
    if (PQntuples(found->get()) == 0) return 0;
    Params brief;
    brief.text(kDropLockTimeout).text(kDropStatementTimeout);
    Params drop;
    drop.text(place_.quoted_name()).int64(int64_at(found->get(), 0, 0)).text(columns_.published);
    const std::array steps = {Step{&kBrief, &brief}, Step{&kDropPartition, &drop}};
    auto dropped = connection.run(steps, Effect::write, connection.statement_deadline());
    if (!dropped) return Failure(std::move(dropped.error()));
    return bool_at(dropped->back().get(), 0, 0) ? int64_at(found->get(), 0, 1) : 0;
}

Result<std::int64_t> EventCleanup::remove_rows(Connection& connection, IdKind ids, Duration age, std::int32_t limit) {
    std::string sql(kRemoveEvents);
    for (const auto& [mark, text] : {std::pair<const char*, std::string>{"@table", place_.quoted_name()},
                                     {"@id", quoted(columns_.id)},
                                     {"@published", quoted(columns_.published)},
                                     {"@at", quoted(columns_.published_at)},
                                     {"@type", ids == IdKind::number ? "bigint" : "uuid"}}) {
        sql = replaced(std::move(sql), mark, text);
    }
    const Statement statement = statement_by_text("events_remove", std::move(sql));
    const std::lock_guard lock(mutex_);  // two at once would only meet in the same rows
    std::int64_t removed = 0;
    for (int look = 0; look < kCleanupLooks && removed < limit; ++look) {
        Params params;
        params.literal(!reached_.empty() ? reached_ : ids == IdKind::number ? kLowestNumber : kLowestUuid);
        params.int32(kCleanupWindow).float64(age_seconds(age)).int32(limit - static_cast<std::int32_t>(removed));
        auto done = connection.run(Step{&statement, &params}, Effect::write, connection.statement_deadline());
        if (!done) return Failure(std::move(done.error()));
        const std::int64_t gone = int64_at(done->get(), 0, 0);
        removed += gone;
        if (removed >= limit) break;  // there may be more before the end of this look
        const bool at_end = int64_at(done->get(), 0, 2) < kCleanupWindow;
        // What comes behind rows that were published lately was published later still, or not at all.
        const bool young_from_here = ids == IdKind::number && gone == 0 && int64_at(done->get(), 0, 3) > 0;
        if (at_end || young_from_here) {
            reached_.clear();
            break;
        }
        reached_ = text_at(done->get(), 0, 1);
    }
    return removed;
}

std::vector<Finding> findings_of(const EventShape& shape, const TablePlace& place, const EventColumns& columns) {
    const std::string name = place.text();
    const auto fit = check_shape(shape, place, columns);
    if (!fit) return {finding("event table", false, fit.error().message)};
    std::vector<Finding> findings = {finding("event table", true, name + " is there, with its columns")};
    std::string grants;
    if (!shape.schema_usable) grants += "grant usage on schema " + quoted(place.schema) + " to " + shape.role + "; ";
    if (!shape.missing_grants.empty()) {
        grants += "grant " + shape.missing_grants + " on " + place.quoted_name() + " to " + shape.role + "; ";
    }
    findings.push_back(grants.empty()
                           ? finding("event privileges", true, "the user may do all that is needed on " + name)
                           : finding("event privileges", false,
                                     "the user lacks privileges; run as the owner of the table: " + grants));
    return findings;
}

}  // namespace deliverd::store::postgres
