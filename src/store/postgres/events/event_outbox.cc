#include "store/postgres/events/event_outbox.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <limits>
#include <utility>

#include "base/mutex.h"
#include "base/try.h"
#include "deliverd/error_codes.h"
#include "store/event_row.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/events/event_cleanup.h"
#include "store/postgres/events/event_listener.h"
#include "store/postgres/events/event_read.h"
#include "store/postgres/events/event_settle.h"
#include "store/postgres/events/event_shape.h"
#include "store/postgres/events/event_shards.h"
#include "store/postgres/events/event_sql.h"
#include "store/postgres/events/statements.h"

namespace deliverd::store::postgres {
namespace {

constexpr std::int64_t kFirstId = std::numeric_limits<std::int64_t>::min();

/// lag_seconds() starts where it last found something. Once in this many calls it starts from the beginning, for rows
/// that became visible late.
constexpr std::uint32_t kLagCallsFromTheBeginning = 64;

/// The table as it was found, and its statements.
struct TableStatements {
    EventShape shape;
    EventStatements sql;
};

class PostgresEventOutbox final : public EventOutbox {
public:
    PostgresEventOutbox(Pool& pool, Log& log, const std::string& schema, const EventTable& table)
        : pool_(pool),
          log_(log),
          schema_(schema),
          table_(table),
          place_(TablePlace::of(table, schema)),
          shards_(pool, table.lane, table.shards),
          cleanup_(table, place_) {}

    Result<EventBatch> read(const EventRead& request) override {
        TRY(check_read(request));
        if (request.shards.empty()) return EventBatch();
        return on_table([&](Connection& connection, const TableStatements& table) {
            return read_events(connection, table.sql, table_, request);
        });
    }

    Result<std::vector<EventSettled>> settle(std::string_view owner,
                                             std::span<const EventSettlement> settlements) override {
        TRY(check_owner(owner));
        if (settlements.empty()) return std::vector<EventSettled>();
        return on_table([&](Connection& connection, const TableStatements& table) {
            return settle_events(connection, table.sql, table_.lane, owner, settlements);
        });
    }

    Result<ShardShare> tend(std::string_view owner, Duration lease) override { return shards_.tend(owner, lease); }
    Result<void> release(std::string_view owner, std::span<const ShardLease> leases) override {
        return shards_.release(owner, leases);
    }
    Result<void> leave(std::string_view owner) override { return shards_.leave(owner); }
    Result<void> set_asleep(std::string_view owner, bool asleep) override { return shards_.set_asleep(owner, asleep); }

    std::unique_ptr<EventListener> listen(std::function<void()> on_event) override {
        return make_event_listener(pool_.options(), log_, std::move(on_event));
    }

    Result<double> lag_seconds() override {
        return on_table([&](Connection& connection, const TableStatements& table) -> Result<double> {
            const bool anew = lag_calls_.fetch_add(1) % kLagCallsFromTheBeginning == 0;
            Params params;
            if (table.sql.ids == IdKind::number) params.int64(anew ? kFirstId : lag_from_.load());
            if (!table.sql.own_failures) params.text(table_.lane);
            TRY_ASSIGN(auto result,
                       connection.run(Step{&table.sql.lag, &params}, Effect::read, connection.statement_deadline()));
            if (PQntuples(result.get()) == 0) return 0.0;
            lag_from_ = int64_at(result.get(), 0, 1);
            return std::max(0.0, float64_at(result.get(), 0, 0));
        });
    }

    Result<RowCounts> counts() override {
        return on_table([&](Connection& connection, const TableStatements& table) -> Result<RowCounts> {
            const Params params = table.sql.own_failures ? Params() : Params(table_.lane);
            const std::array steps = {step_without_parameters(events::sql::whole_table),
                                      Step{&table.sql.counts, &params}};
            TRY_ASSIGN(auto results, connection.run(steps, Effect::read, connection.statement_deadline()));
            RowCounts counts;
            read_row(results.back().get(), 0, counts.pending, counts.sent, counts.dead);
            return counts;
        });
    }

    Result<void> ping(Duration deadline) override { return ping_server(pool_, deadline); }

    Result<std::int64_t> remove_published(Duration age, std::int32_t limit) override {
        TRY(check_remove_published(age, limit));
        return on_table([&](Connection& connection, const TableStatements& table) {
            return cleanup_.remove(connection, table.shape, age, limit);
        });
    }

    Result<std::vector<Finding>> inspect() override {
        TRY_ASSIGN(auto connection, pool_.borrow());
        TRY_ASSIGN(auto shape, read_shape(*connection, place_, table_.columns));
        return findings_of(shape, place_, table_.columns);
    }

private:
    /// Shared: a call keeps the statements with which it began.
    using TableStatementsPtr = std::shared_ptr<const TableStatements>;

    /// `work` on a connection, with the statements. If it fails in a way that a changed table may explain, the next
    /// call looks the table up again.
    template <typename Work>
    std::invoke_result_t<Work, Connection&, const TableStatements&> on_table(Work work) {
        TRY_ASSIGN(auto connection, pool_.borrow());
        TRY_ASSIGN(const auto table, table_statements(*connection));
        auto answer = work(*connection, *table);
        if (!answer && answer.error().code == codes::kDbError) {
            const MutexLock lock(mutex_);
            prepared_ = nullptr;
        }
        return answer;
    }

    Result<TableStatementsPtr> table_statements(Connection& connection) {
        {
            const MutexLock lock(mutex_);
            if (prepared_ != nullptr) return prepared_;
        }
        // Not under the lock: several threads may look the table up at once, which only costs a round trip each.
        TRY_ASSIGN(auto shape, read_shape(connection, place_, table_.columns));
        TRY(check_shape(shape, place_, table_.columns));
        EventStatements sql(table_, place_, shape, schema_);
        auto made = std::make_shared<const TableStatements>(TableStatements{std::move(shape), std::move(sql)});
        const MutexLock lock(mutex_);
        prepared_ = made;
        return made;
    }

    Pool& pool_;
    Log& log_;
    const std::string schema_;
    const EventTable table_;
    const TablePlace place_;
    EventShards shards_;
    EventCleanup cleanup_;
    Mutex mutex_;
    TableStatementsPtr prepared_ GUARDED_BY(mutex_);
    std::atomic<std::int64_t> lag_from_ = kFirstId;
    std::atomic<std::uint32_t> lag_calls_ = 0;
};

}  // namespace

Result<std::unique_ptr<EventOutbox>> open_event_outbox(Pool& pool, Log& log, const std::string& schema,
                                                       const EventTable& table) {
    TRY(check_event_table(table));
    return std::make_unique<PostgresEventOutbox>(pool, log, schema, table);
}

}  // namespace deliverd::store::postgres
