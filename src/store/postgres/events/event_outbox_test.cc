// What the event outbox does on PostgreSQL beyond what every store does, when others are at work in the same rows:
// takeovers that race a settle, locks, faults. What is about tables is in event_tables_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "store/postgres/testing/test_events.h"

namespace deliverd::store::postgres {
namespace {

using conformance::must;
using std::chrono::seconds;
using ::testing::ElementsAre;

class PostgresEventsAtWork : public PostgresEvents {};

TEST_F(PostgresEventsAtWork, ATakeoverThatIsUnderWayFencesTheSettleThatWaitsForIt) {
    add("a");
    const EventRow row = read(*outbox_).at(0);
    const ShardLease mine = lease(*outbox_, "r", row.shard);
    for (const bool committed : {false, true}) {
        store_.execute("begin; update deliverd.shards set owner = 's', token = token + 1");
        Result<std::vector<EventSettled>> answer = retryable("", "");
        const EventSettlement sent = settlement(row, mine);
        std::thread settling([&] { answer = outbox_->settle("r", std::span(&sent, 1)); });
        PlainConnection other(store_.server().conninfo());
        EXPECT_TRUE(someone_waits(other));
        store_.execute(committed ? "commit" : "rollback");
        settling.join();
        ASSERT_TRUE(answer) << answer.error().message;
        if (committed) {
            EXPECT_THAT(*answer, ElementsAre(EventSettled::fenced));
            EXPECT_EQ(count("outbox where published"), "0");
        } else {
            EXPECT_THAT(*answer, ElementsAre(EventSettled::applied)) << "the lease is still the owner's";
            store_.execute("update outbox set published = false, published_at = null");
        }
    }
}

TEST_F(PostgresEventsAtWork, ASettleThatIsUnderWayKeepsItsShardUntilItIsDone) {
    add("a");
    const EventRow row = read(*outbox_).at(0);
    const ShardLease mine = lease(*outbox_, "r", row.shard);
    for (const char* leases : {"shards", "relays"}) {
        store_.execute(std::string("update deliverd.") + leases + " set expires_at = now() - interval '1 s'");
    }
    // Holds the settle up in the middle, when it has its shard and writes the row.
    store_.execute(
        "create function hold_up() returns trigger language plpgsql as"
        " 'begin perform pg_advisory_xact_lock(7); return new; end';"
        "create trigger hold_up before update on outbox for each row execute function hold_up()");
    store_.execute("begin; select pg_advisory_xact_lock(7)");
    Result<std::vector<EventSettled>> answer = retryable("", "");
    const EventSettlement failed = settlement(row, mine, SettleKind::retry);
    std::thread settling([&] { answer = outbox_->settle("r", std::span(&failed, 1)); });
    PlainConnection other(store_.server().conninfo());
    EXPECT_TRUE(someone_waits(other));
    const auto second = store_.open_again();
    const auto theirs = must(second->event_outbox(table()));
    const ShardShare share = must(theirs->tend("s", seconds(60)));
    EXPECT_EQ(share.held.size(), static_cast<std::size_t>(kShards - 1)) << "all but the one that is settled in";
    store_.execute("rollback");
    settling.join();
    EXPECT_THAT(must(std::move(answer)), ElementsAre(EventSettled::applied));
    EXPECT_EQ(must(theirs->tend("s", seconds(60))).held.size(), static_cast<std::size_t>(kShards));
}

/// Someone left a transaction open in which they looked at rows with `for update`.
TEST_F(PostgresEventsAtWork, ALockedRowHoldsUpNeitherTheOthersNorTheHeartbeat) {
    for (const char* aggregate : {"a", "b", "c", "d", "e"}) add(aggregate);
    const auto rows = read(*outbox_);
    std::map<std::int32_t, ShardLease> leases;
    for (const ShardLease& held : must(outbox_->tend("r", seconds(60))).held) leases.emplace(held.shard, held);
    std::vector<EventSettlement> batch;
    for (const EventRow& row : rows) {
        const bool last_two = row.sequence > 3;
        batch.push_back(settlement(row, leases.at(row.shard), last_two ? SettleKind::retry : SettleKind::sent));
    }
    PlainConnection other(store_.server().conninfo());
    other.column("begin");
    other.column("select 1 from outbox where id in (2, 4) for update");
    using enum EventSettled;
    EXPECT_THAT(must(outbox_->settle("r", batch)), ElementsAre(applied, locked, applied, locked, applied));
    must(outbox_->tend("r", seconds(60)));
    EXPECT_EQ(count("outbox where published"), "2");
    EXPECT_EQ(count("outbox_audit"), "1");

    std::vector<EventSettlement> left = {batch[1], batch[3], batch[0]};
    for (EventSettlement& one : left) one.met_lock = true;
    EXPECT_THAT(must(outbox_->settle("r", left)), ElementsAre(locked, locked, conflict));
    left[1].lease.token += 1;
    EXPECT_THAT(must(outbox_->settle("r", left)), ElementsAre(locked, fenced, conflict));
    other.column("rollback");
    left[1].lease.token -= 1;
    EXPECT_THAT(must(outbox_->settle("r", left)), ElementsAre(applied, applied, conflict));
    EXPECT_EQ(count("outbox where published"), "3");
    EXPECT_EQ(count("outbox where retry_count = 1"), "2");
    EXPECT_EQ(count("outbox_audit"), "2");
}

TEST_F(PostgresEventsAtWork, ALockedRowOfOthersHoldsUpNobodyElse) {
    store_.execute(
        "create table theirs (id uuid primary key default gen_random_uuid(), aggregatetype text, aggregateid text not"
        " null, type text, payload text);"
        "insert into theirs (aggregateid) values ('a'), ('b'), ('c')");
    EventTable foreign = table();
    foreign.lane = "theirs";
    foreign.table = "theirs";
    foreign.columns = EventColumns::debezium();
    const auto theirs = outbox(foreign);
    for (const char* locking : {"select 1 from theirs where aggregateid = 'b' for update",
                                "select 1 from deliverd.event_failures where aggregate_id = 'b' for update"}) {
        std::vector<EventSettlement> batch;
        std::vector<EventSettled> expected;
        for (const EventRow& row : read(*theirs)) {
            const auto kind = row.message.key == "a" ? SettleKind::sent : SettleKind::retry;
            batch.push_back(settlement(row, lease(*theirs, "r", row.shard), kind));
            expected.push_back(row.message.key == "b" ? EventSettled::locked : EventSettled::applied);
        }
        PlainConnection other(store_.server().conninfo());
        other.column("begin");
        other.column(locking);
        // Only to know of the lock: a first failure of a row is written without touching it.
        for (EventSettlement& one : batch) one.met_lock = true;
        EXPECT_EQ(must(theirs->settle("r", batch)), expected) << locking;
        other.column("rollback");
        for (const EventSettlement& one : batch) {
            if (one.aggregate_id != "b") continue;
            EXPECT_EQ(settle(*theirs, "r", one), EventSettled::applied);
        }
        EXPECT_EQ(count("theirs"), "2");
    }
    EXPECT_EQ(count("deliverd.event_failures where retry_count = 2"), "2");
}

TEST_F(PostgresEventsAtWork, ARolledBackEventIsNeverRead) {
    store_.execute("begin");
    add("a");
    EXPECT_TRUE(read(*outbox_).empty());
    store_.execute("rollback");
    EXPECT_TRUE(read(*outbox_).empty());
}

TEST_F(PostgresEventsAtWork, AConnectionCutDuringASettleIsAmbiguousAndTheRepeatIsSafe) {
    add("a");
    const EventRow row = read(*outbox_).at(0);
    const EventSettlement failed = settlement(row, lease(*outbox_, "r", row.shard), SettleKind::retry);
    store_.execute("begin; lock table outbox in exclusive mode");
    Result<std::vector<EventSettled>> answer = retryable("", "");
    std::thread settling([&] { answer = outbox_->settle("r", std::span(&failed, 1)); });
    PlainConnection other(store_.server().conninfo());
    EXPECT_TRUE(someone_waits(other));
    other.column(std::string("select pg_terminate_backend(pid)") + kWaiting);
    settling.join();
    store_.execute("rollback");
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().error_class, ErrorClass::ambiguous);
    EXPECT_EQ(count("outbox_audit"), "0");
    EXPECT_EQ(settle(*outbox_, "r", failed), EventSettled::applied);
    EXPECT_EQ(settle(*outbox_, "r", failed), EventSettled::conflict);
    EXPECT_EQ(count("outbox where retry_count = 1"), "1");
    EXPECT_EQ(count("outbox_audit"), "1");
}

}  // namespace
}  // namespace deliverd::store::postgres
