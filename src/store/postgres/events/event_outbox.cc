#include "store/postgres/events/event_outbox.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <utility>

#include "base/mutex.h"
#include "base/try.h"
#include "deliverd/error_codes.h"
#include "store/event_row.h"
#include "store/outbox_row.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/events/event_shape.h"
#include "store/postgres/events/statements.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

constexpr std::int64_t kFirstId = std::numeric_limits<std::int64_t>::min();

/// lag_seconds() starts where it last found something. Once in this many calls it starts from the beginning, for rows
/// that became visible late.
constexpr std::uint32_t kLagCallsFromTheBeginning = 64;

/// Rows per statement, and statements per call: they bound a call that finds nothing.
constexpr std::int32_t kCleanupWindow = 5000;
constexpr int kCleanupStatements = 40;
/// How long dropping a partition may wait for locks (others queue behind it), and how long it may take altogether.
constexpr const char* kDropLockTimeout = "100ms";
constexpr const char* kDropStatementTimeout = "1s";
/// For this long rows are deleted one by one after a search for partitions took too long.
constexpr Duration kPartitionPause = std::chrono::minutes(10);

constexpr std::string_view kQueryCanceled = "57014";
constexpr const char* kLowestNumber = "-9223372036854775808";
constexpr const char* kLowestUuid = "00000000-0000-0000-0000-000000000000";

double age_seconds(Duration age) {
    return std::min(to_seconds(age), kMaxDelaySeconds);
}

class PostgresEventOutbox final : public EventOutbox {
public:
    PostgresEventOutbox(Pool& pool, Log& log, const std::string& schema, const EventTable& table)
        : pool_(pool), log_(log), schema_(schema), table_(table), place_(TablePlace::of(table, schema)) {}

    Result<EventBatch> read(const EventRead& request) override {
        TRY(check_read(request));
        if (request.shards.empty()) return EventBatch();
        return on_table([&](Connection& connection, const EventStatements& table) {
            return read_events(connection, table, table_, request);
        });
    }

    Result<std::vector<EventSettled>> settle(std::string_view owner,
                                             std::span<const EventSettlement> settlements) override {
        TRY(check_owner(owner));
        if (settlements.empty()) return std::vector<EventSettled>();
        return on_table([&](Connection& connection, const EventStatements& table) {
            return settle_events(connection, table, table_.lane, owner, settlements);
        });
    }

    Result<ShardShare> tend(std::string_view owner, Duration lease) override {
        TRY(check_tend(owner, lease));
        TRY_ASSIGN(auto connection, pool_.borrow());
        TRY_ASSIGN(auto tended, try_tend(*connection, owner, to_seconds(lease), false));
        // The lock that it takes to change the number holds up all relays of the lane: it is taken only when needed.
        if (!tended.stored.fits(table_.shards) && tended.stored.others == 0) {
            TRY_ASSIGN(tended, try_tend(*connection, owner, to_seconds(lease), true));
        }
        if (!tended.stored.fits(table_.shards)) return other_shards(table_.lane, table_.shards, tended.stored);
        return std::move(tended.share);
    }

    Result<void> release(std::string_view owner, std::span<const ShardLease> leases) override {
        TRY(check_owner(owner));
        if (leases.empty()) return {};
        const Params params(table_.lane, owner, column(leases, &ShardLease::shard), column(leases, &ShardLease::token));
        TRY(run_once(pool_, fixed_statement(events::sql::release_shards), params, Effect::write));
        return {};
    }

    Result<void> leave(std::string_view owner) override {
        TRY(check_owner(owner));
        const Params params(table_.lane, owner);
        const std::array steps = {Step{&fixed_statement(events::sql::release_all_shards), params},
                                  Step{&fixed_statement(events::sql::leave_lane), params}};
        TRY(run_once(pool_, steps, Effect::write));
        return {};
    }

    Result<void> set_asleep(std::string_view owner, bool asleep) override {
        TRY(check_owner(owner));
        // If a crash forgets it, a writer does not notify, and the relay finds the event with its next poll.
        const std::array steps = {relaxed_commit(), Step{&fixed_statement(events::sql::set_asleep),
                                                         Params(table_.lane, owner, asleep ? 1 : 0)}};
        TRY(run_once(pool_, steps, Effect::write));
        return {};
    }

    std::unique_ptr<EventListener> listen(std::function<void()> on_event) override {
        return make_event_listener(pool_.options(), log_, std::move(on_event));
    }

    Result<double> lag_seconds() override {
        return on_table([&](Connection& connection, const EventStatements& table) -> Result<double> {
            const bool anew = lag_calls_.fetch_add(1) % kLagCallsFromTheBeginning == 0;
            Params params;
            if (table.ids == IdKind::number) params.int64(anew ? kFirstId : lag_from_.load());
            if (!table.own_failures) params.text(table_.lane);
            TRY_ASSIGN(auto result, connection.run(Step{&table.lag, std::move(params)}, Effect::read));
            if (PQntuples(result.get()) == 0) return 0.0;
            lag_from_ = Row(result.get()).get<std::int64_t>(1);
            return std::max(0.0, Row(result.get()).get<double>());
        });
    }

    Result<RowCounts> counts() override {
        return on_table([&](Connection& connection, const EventStatements& table) -> Result<RowCounts> {
            const std::array steps = {Step{&fixed_statement(events::sql::whole_table)},
                                      Step{&table.counts, table.own_failures ? Params() : Params(table_.lane)}};
            TRY_ASSIGN(auto results, connection.run(steps, Effect::read));
            RowCounts counts;
            Row(results.back().get()).read(counts.pending, counts.sent, counts.dead);
            return counts;
        });
    }

    Result<void> ping(Duration deadline) override { return ping_server(pool_, deadline); }

    Result<std::int64_t> remove_published(Duration age, std::int32_t limit) override {
        TRY(check_remove_published(age, limit));
        return on_table([&](Connection& connection, const EventStatements& table) -> Result<std::int64_t> {
            // Nothing where the table does not say when a row was published.
            if (table_.columns.published.empty() || table_.columns.published_at.empty()) return 0;
            if (table.range_partitioned && table.ids == IdKind::number &&
                std::chrono::steady_clock::now() >= partitions_again_.load()) {
                auto dropped = drop_partition(connection, age);
                if (!dropped || *dropped > 0) return dropped;
            }
            return remove_rows(connection, table.ids, age, limit);
        });
    }

    Result<std::vector<Finding>> inspect() override {
        TRY_ASSIGN(auto connection, pool_.borrow());
        TRY_ASSIGN(auto shape, read_shape(*connection, place_, table_.columns));
        return findings_of(shape, place_, table_.columns);
    }

private:
    /// The answer of one transaction of tend().
    struct Tended {
        StoredShards stored;
        ShardShare share;  // only if the number fits
    };
    /// One transaction. `remake`: the lane gets this relay's number of shards unless another relay is alive.
    ///
    /// Durable, unlike the claim of a row lease: if a crash of the server forgot a shard lease, another relay could
    /// take it while this one still counts on it. It is one commit every few seconds.
    Result<Tended> try_tend(Connection& connection, std::string_view owner, double lease_seconds, bool remake) {
        const std::string& lane = table_.lane;
        const Params all(lane, table_.shards, owner, lease_seconds);
        const Params lane_owner(lane, owner);
        std::vector<Step> steps;
        const auto add = [&](std::string_view text, Params params) {
            steps.push_back({&fixed_statement(text), std::move(params)});
        };
        // The lock of the lane comes before those of shards, in every relay. The heartbeat comes before the shares are
        // counted, so that this relay counts.
        add(remake ? events::sql::lock_lane : events::sql::share_lane, Params(lane));
        if (remake) add(events::sql::remake_shards, Params(lane, table_.shards, owner));
        add(events::sql::beat, all);
        add(events::sql::forget_relays, Params(lane, lease_seconds * kForgetAfterLeases));
        add(events::sql::renew_shards, all);
        add(events::sql::take_shards, all);
        add(events::sql::stored_shards, lane_owner);
        add(events::sql::relays_alive, lane_owner);
        add(events::sql::held_shards, lane_owner);
        TRY_ASSIGN(auto results, connection.run(steps, Effect::write));
        const std::span<const PgResult> answers = std::span(results).last(3);
        Tended tended;
        StoredShards& stored = tended.stored;
        Row(answers[0].get()).read(stored.count, stored.last, stored.others);
        std::int32_t place = 0;
        Row(answers[1].get()).read(tended.share.relays, place);
        tended.share.share = shard_share(table_.shards, tended.share.relays, place);
        tended.share.held = rows_as(answers[2].get(), [](const Row& row) {
            return ShardLease{row.get<std::int32_t>(), row.get<std::int64_t>(1)};
        });
        return tended;
    }

    /// Also 0 if the search for a partition takes longer than a statement may.
    Result<std::int64_t> drop_partition(Connection& connection, Duration age) {
        Params find(place_.quoted_name(), table_.columns.id, table_.columns.published, table_.columns.published_at,
                    age_seconds(age));
        auto found = connection.run(Step{&fixed_statement(events::sql::find_published_partition), std::move(find)},
                                    Effect::read);
        // Whether a partition has an open row may take a scan of it. If that is too long for a statement, it will be
        // too long the next time as well: do not try with every call.
        if (!found && connection.usable() && connection.refused_with() == kQueryCanceled) {
            partitions_again_ = std::chrono::steady_clock::now() + kPartitionPause;
            return 0;
        }
        if (!found) return Failure(std::move(found.error()));
        if (PQntuples(found->get()) == 0) return 0;
        const Row partition(found->get());  // its number, and how many rows it has
        const std::array steps = {
            Step{&fixed_statement(events::sql::brief_drop), Params(kDropLockTimeout, kDropStatementTimeout)},
            Step{&fixed_statement(events::sql::drop_published_partition),
                 Params(place_.quoted_name(), partition.get<std::int64_t>(), table_.columns.published)}};
        // The drop checks again under its lock: since it was found the partition may have got an open row.
        TRY_ASSIGN(auto dropped, connection.run(steps, Effect::write));
        return Row(dropped.back().get()).get<bool>() ? partition.get<std::int64_t>(1) : 0;
    }

    /// A little at a time: walks the table in the order of its ids and remembers how far it got.
    Result<std::int64_t> remove_rows(Connection& connection, IdKind ids, Duration age, std::int32_t limit) {
        const Statement statement = statement_by_text(
            "events_remove",
            filled(events::sql::remove_published, {{"table", place_.quoted_name()},
                                                   {"id", quoted(table_.columns.id)},
                                                   {"published", quoted(table_.columns.published)},
                                                   {"published_at", quoted(table_.columns.published_at)},
                                                   {"id_type", ids == IdKind::number ? "bigint" : "uuid"}}));
        const MutexLock lock(cleanup_mutex_);  // two calls at once would only meet in the same rows
        std::int64_t removed = 0;
        for (int done = 0; done < kCleanupStatements && removed < limit; ++done) {
            const std::string after = !reached_.empty()       ? reached_
                                      : ids == IdKind::number ? kLowestNumber
                                                              : kLowestUuid;
            Params params(std::optional{after}, kCleanupWindow, age_seconds(age),
                          limit - static_cast<std::int32_t>(removed));
            TRY_ASSIGN(auto answer, connection.run(Step{&statement, std::move(params)}, Effect::write));
            std::int64_t gone = 0;
            std::string last_id;
            std::int64_t looked_at = 0;
            std::int64_t young = 0;
            Row(answer.get()).read(gone, last_id, looked_at, young);
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

    /// Shared: a call keeps the statements with which it began.
    using EventStatementsPtr = std::shared_ptr<const EventStatements>;

    /// `work` on a connection, with the statements. If it fails in a way that a changed table may explain, the next
    /// call looks the table up again.
    template <typename Work>
    std::invoke_result_t<Work, Connection&, const EventStatements&> on_table(Work work) {
        TRY_ASSIGN(auto connection, pool_.borrow());
        TRY_ASSIGN(const auto table, table_statements(*connection));
        auto answer = work(*connection, *table);
        if (!answer && answer.error().code == codes::kDbError) {
            const MutexLock lock(mutex_);
            prepared_ = nullptr;
        }
        return answer;
    }

    Result<EventStatementsPtr> table_statements(Connection& connection) {
        {
            const MutexLock lock(mutex_);
            if (prepared_ != nullptr) return prepared_;
        }
        // Not under the lock: several threads may look the table up at once, which only costs a round trip each.
        TRY_ASSIGN(auto shape, read_shape(connection, place_, table_.columns));
        TRY(check_shape(shape, place_, table_.columns));
        auto made = std::make_shared<const EventStatements>(table_, place_, shape, schema_);
        const MutexLock lock(mutex_);
        prepared_ = made;
        return made;
    }

    Pool& pool_;
    Log& log_;
    const std::string schema_;
    const EventTable table_;
    const TablePlace place_;
    Mutex mutex_;
    EventStatementsPtr prepared_ GUARDED_BY(mutex_);
    std::atomic<Deadline> partitions_again_{Deadline{}};
    Mutex cleanup_mutex_;
    /// The id up to which there was nothing to delete; empty: the beginning.
    std::string reached_ GUARDED_BY(cleanup_mutex_);
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
