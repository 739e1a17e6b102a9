// Deletes what was published long ago, a little at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "base/mutex.h"
#include "store/events.h"
#include "store/postgres/connection/connection.h"
#include "store/postgres/events/event_shape.h"

namespace deliverd::store::postgres {

/// Rows per statement, and statements per call: they bound a call that finds nothing.
inline constexpr std::int32_t kCleanupWindow = 5000;
inline constexpr int kCleanupStatements = 40;
/// How long dropping a partition may wait for locks (others queue behind it), and how long it may take altogether.
inline constexpr const char* kDropLockTimeout = "100ms";
inline constexpr const char* kDropStatementTimeout = "1s";
/// For this long rows are deleted one by one after a search for partitions took too long.
inline constexpr Duration kPartitionPause = std::chrono::minutes(10);

/// Walks the table in the order of its ids and remembers how far it got. Thread-safe.
class EventCleanup {
public:
    EventCleanup(const EventTable& table, const TablePlace& place) : place_(place), columns_(table.columns) {}

    /// EventOutbox::remove_published(). Nothing where the table does not say when a row was published.
    Result<std::int64_t> remove(Connection& connection, const EventShape& shape, Duration age, std::int32_t limit);

private:
    /// Also 0 if the search for a partition takes longer than a statement may.
    Result<std::int64_t> drop_partition(Connection& connection, Duration age);
    Result<std::int64_t> remove_rows(Connection& connection, IdKind ids, Duration age, std::int32_t limit);

    const TablePlace place_;
    const EventColumns columns_;
    std::atomic<Deadline> partitions_again_{Deadline{}};
    Mutex mutex_;
    /// The id up to which there was nothing to delete; empty: the beginning.
    std::string reached_ GUARDED_BY(mutex_);
};

}  // namespace deliverd::store::postgres
