// The event outbox on PostgreSQL: plain reads by index, one statement per settled batch, leases of shards.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/mutex.h"
#include "store/events.h"
#include "store/postgres/connection/pool.h"
#include "store/postgres/events/event_cleanup.h"
#include "store/postgres/events/event_shape.h"
#include "store/postgres/events/event_shards.h"
#include "store/postgres/events/event_sql.h"

namespace deliverd::store::postgres {

/// lag_seconds() starts where it last found something. One look in this many starts from the beginning, for rows that
/// became visible late.
inline constexpr std::uint32_t kLagLooksFromTheBeginning = 64;

class PostgresEventOutbox final : public EventOutbox {
public:
    /// `table` has been checked. `pool` and `log` outlive it and its listeners.
    PostgresEventOutbox(Pool& pool, Log& log, const std::string& schema, EventTable table)
        : pool_(pool),
          log_(log),
          schema_(schema),
          table_(std::move(table)),
          place_(TablePlace::of(table_, schema)),
          shards_(pool, table_.lane, table_.shards),
          cleanup_(table_, place_) {}

    Result<EventBatch> read(const EventRead& request) override;
    Result<std::vector<EventSettled>> settle(std::string_view owner,
                                             std::span<const EventSettlement> settlements) override;
    Result<ShardShare> tend(std::string_view owner, Duration lease) override { return shards_.tend(owner, lease); }
    Result<void> release(std::string_view owner, std::span<const ShardLease> leases) override {
        return shards_.release(owner, leases);
    }
    Result<void> leave(std::string_view owner) override { return shards_.leave(owner); }
    Result<void> set_asleep(std::string_view owner, bool asleep) override { return shards_.set_asleep(owner, asleep); }
    std::unique_ptr<EventListener> listen(std::function<void()> on_event) override;
    Result<double> lag_seconds() override;
    Result<RowCounts> counts() override;
    Result<void> ping(Duration deadline) override;
    Result<std::int64_t> remove_published(Duration age, std::int32_t limit) override;
    Result<std::vector<Finding>> inspect() override;

private:
    /// The table as it was found, and its statements. Shared: a call keeps what it began with.
    struct TableStatements {
        EventShape shape;
        EventStatements sql;
    };
    using TableStatementsPtr = std::shared_ptr<const TableStatements>;

    /// Looks the table up when it is first needed, and again after forget_if_changed().
    Result<TableStatementsPtr> table_statements(Connection& connection);
    /// After a failure that a changed table may explain: the next call looks the table up again.
    void forget_if_changed(const Error& error);
    bool all_shards(const std::vector<std::int32_t>& shards) const;

    Pool& pool_;
    Log& log_;
    const std::string schema_;
    const EventTable table_;
    const TablePlace place_;
    EventShards shards_;
    EventCleanup cleanup_;
    Mutex mutex_;
    TableStatementsPtr prepared_ GUARDED_BY(mutex_);
    std::atomic<std::int64_t> lag_from_ = std::numeric_limits<std::int64_t>::min();
    std::atomic<std::uint32_t> lag_looks_ = 0;
};

}  // namespace deliverd::store::postgres
