#include "store/postgres/events/event_cleanup.h"

#include <array>
#include <utility>

#include "base/try.h"
#include "store/outbox_row.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/events/event_sql.h"
#include "store/postgres/events/statements.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

constexpr std::string_view kQueryCanceled = "57014";
constexpr const char* kLowestNumber = "-9223372036854775808";
constexpr const char* kLowestUuid = "00000000-0000-0000-0000-000000000000";

double age_seconds(Duration age) {
    return std::min(to_seconds(age), kMaxDelaySeconds);
}

}  // namespace

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
    auto found = connection.run(Step{&fixed_statement(events::sql::find_published_partition), &find}, Effect::read,
                                connection.statement_deadline());
    // Whether a partition has an open row may take a scan of it. If that is too long for a statement, it will be too
    // long the next time as well: do not try with every call.
    if (!found && connection.usable() && connection.refused_with() == kQueryCanceled) {
        partitions_again_ = std::chrono::steady_clock::now() + kPartitionPause;
        return 0;
    }
    if (!found) return Failure(std::move(found.error()));
    if (PQntuples(found->get()) == 0) return 0;
    const Params brief(kDropLockTimeout, kDropStatementTimeout);
    const Params drop(place_.quoted_name(), int64_at(found->get(), 0, 0), columns_.published);
    const std::array steps = {Step{&fixed_statement(events::sql::brief_drop), &brief},
                              Step{&fixed_statement(events::sql::drop_published_partition), &drop}};
    // The drop checks again under its lock: since it was found the partition may have got an open row.
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
    const MutexLock lock(mutex_);  // two calls at once would only meet in the same rows
    std::int64_t removed = 0;
    for (int done = 0; done < kCleanupStatements && removed < limit; ++done) {
        const std::string after = !reached_.empty() ? reached_ : ids == IdKind::number ? kLowestNumber : kLowestUuid;
        const Params params(std::optional{after}, kCleanupWindow, age_seconds(age),
                            limit - static_cast<std::int32_t>(removed));
        TRY_ASSIGN(auto answer,
                   connection.run(Step{&statement, &params}, Effect::write, connection.statement_deadline()));
        std::int64_t gone = 0;
        std::string last_id;
        std::int64_t looked_at = 0;
        std::int64_t young = 0;
        read_row(answer.get(), 0, gone, last_id, looked_at, young);
        removed += gone;
        if (removed >= limit) break;  // there may be more to delete in these rows: begin with them again
        // Rows behind ones that were published lately were published even later, or not at all.
        const bool young_from_here = ids == IdKind::number && gone == 0 && young > 0;
        if (looked_at < kCleanupWindow || young_from_here) {
            reached_.clear();
            break;
        }
        reached_ = last_id;
    }
    return removed;
}

}  // namespace deliverd::store::postgres
