#include "store/postgres/events/event_cleanup.h"

#include <array>
#include <utility>

#include "base/try.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/events/statements.h"
#include "store/settle_batch.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

constexpr const char* kLowestNumber = "-9223372036854775808";
constexpr std::string_view kQueryCanceled = "57014";
constexpr const char* kLowestUuid = "00000000-0000-0000-0000-000000000000";

const Statement kFindPartition{"events_find_partition", events::sql::find_published_partition};
const Statement kBrief{"events_brief_drop", events::sql::brief_drop};
const Statement kDropPartition{"events_drop_partition", events::sql::drop_published_partition};

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
    const Params find(place_.quoted_name(), columns_.id, columns_.published, columns_.published_at, age_seconds(age));
    auto found = connection.run(Step{&kFindPartition, &find}, Effect::read, connection.statement_deadline());
    if (!found && connection.usable() && connection.refused_with() == kQueryCanceled) {
        partitions_again_ = std::chrono::steady_clock::now() + kPartitionPause;
        return 0;
    }
    if (!found) return Failure(std::move(found.error()));
    if (PQntuples(found->get()) == 0) return 0;
    const Params brief(kDropLockTimeout, kDropStatementTimeout);
    const Params drop(place_.quoted_name(), int64_at(found->get(), 0, 0), columns_.published);
    const std::array steps = {Step{&kBrief, &brief}, Step{&kDropPartition, &drop}};
    TRY_ASSIGN(auto dropped, connection.run(steps, Effect::write, connection.statement_deadline()));
    return bool_at(dropped.back().get(), 0, 0) ? int64_at(found->get(), 0, 1) : 0;
}

Result<std::int64_t> EventCleanup::remove_rows(Connection& connection, IdKind ids, Duration age, std::int32_t limit) {
    const Statement statement = statement_by_text(
        "events_remove",
        filled(events::sql::remove_published, {{"table", place_.quoted_name()},
                                               {"id", quoted(columns_.id)},
                                               {"published", quoted(columns_.published)},
                                               {"published_at", quoted(columns_.published_at)},
                                               {"id_type", ids == IdKind::number ? "bigint" : "uuid"}}));
    const MutexLock lock(mutex_);  // two at once would only meet in the same rows
    std::int64_t removed = 0;
    for (int look = 0; look < kCleanupLooks && removed < limit; ++look) {
        const std::string after = !reached_.empty() ? reached_ : ids == IdKind::number ? kLowestNumber : kLowestUuid;
        const Params params(std::optional{after}, kCleanupWindow, age_seconds(age),
                            limit - static_cast<std::int32_t>(removed));
        TRY_ASSIGN(auto done,
                   connection.run(Step{&statement, &params}, Effect::write, connection.statement_deadline()));
        const std::int64_t gone = int64_at(done.get(), 0, 0);
        removed += gone;
        if (removed >= limit) break;  // there may be more before the end of this look
        const bool at_end = int64_at(done.get(), 0, 2) < kCleanupWindow;
        // What comes behind rows that were published lately was published later still, or not at all.
        const bool young_from_here = ids == IdKind::number && gone == 0 && int64_at(done.get(), 0, 3) > 0;
        if (at_end || young_from_here) {
            reached_.clear();
            break;
        }
        reached_ = text_at(done.get(), 0, 1);
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
