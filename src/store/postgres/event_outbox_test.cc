// What the event outbox does on PostgreSQL beyond what every store does: takeovers that race a settle, strict order,
// uuids, partitions, faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "store/events.h"
#include "store/postgres/test_server.h"

namespace deliverd::store::postgres {
namespace {

using conformance::must;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PostgresEventsAtWork : public ::testing::Test {
protected:
    static constexpr std::int32_t kShards = 4;

    static EventTable table() {
        EventTable table;
        table.lane = "events";
        table.shards = kShards;
        return table;
    }
    std::unique_ptr<EventOutbox> outbox(const EventTable& table) { return must(store_.database().event_outbox(table)); }
    void add(const std::string& aggregate) {
        store_.execute("insert into outbox (aggregate_id, event_type, payload) values ('" + aggregate +
                       "', 'T', '{}')");
    }
    static std::vector<EventRow> read(EventOutbox& outbox) {
        EventRead request;
        for (std::int32_t shard = 0; shard < kShards; ++shard) request.shards.push_back(shard);
        request.limit = 1000;
        request.due_limit = 1000;
        return must(outbox.read(request)).rows;
    }
    static std::vector<std::string> ids(const std::vector<EventRow>& rows) {
        std::vector<std::string> out;
        for (const EventRow& row : rows) out.push_back(row.row_id);
        return out;
    }
    static ShardLease lease(EventOutbox& outbox, const std::string& owner, std::int32_t shard) {
        for (const ShardLease& held : must(outbox.tend(owner, seconds(60))).held) {
            if (held.shard == shard) return held;
        }
        ADD_FAILURE() << owner << " does not hold " << shard;
        return {};
    }
    static EventSettlement settlement(const EventRow& row, ShardLease lease, SettleKind kind = SettleKind::sent) {
        EventSettlement out;
        out.row_id = row.row_id;
        out.aggregate_id = row.message.key;
        out.lease = lease;
        out.settlement.id = row.sequence;
        out.settlement.kind = kind;
        out.settlement.failures_before = row.message.failures;
        out.settlement.error = "BROKER_5XX: no";
        return out;
    }
    static EventSettled settle(EventOutbox& outbox, const std::string& owner, const EventSettlement& one) {
        return must(outbox.settle(owner, std::span(&one, 1))).at(0);
    }
    std::string count(const std::string& from) { return store_.value("select count(*) from " + from); }
    /// Backends of the store that wait for a lock; in a settle: the second of its tries, which waits for longer.
    static constexpr const char* kWaiting =
        " from pg_stat_activity where application_name = 'deliverd' and datname = current_database()"
        " and wait_event_type = 'Lock' and query like '%skip locked%'";
    static bool someone_waits(PlainConnection& other) {
        return wait_until([&] { return !other.column(std::string("select pid") + kWaiting).empty(); });
    }

    PostgresTestStore store_{true};
    std::unique_ptr<EventOutbox> outbox_ = outbox(table());
};

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

TEST_F(PostgresEventsAtWork, StrictOrderHoldsBackWhatAnOlderTransactionMayPrecede) {
    EventTable strict_table = table();
    strict_table.strict_order = true;
    const auto strict = outbox(strict_table);
    // Transactions of other tests on this server count as well: they end by themselves.
    const auto read_once_free = [&](std::size_t free_rows) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        auto rows = read(*strict);
        const auto held = [&] {
            return std::any_of(rows.begin(),
                               rows.begin() + static_cast<std::ptrdiff_t>(std::min(free_rows, rows.size())),
                               [](const EventRow& row) { return row.held_back; });
        };
        while (held() && std::chrono::steady_clock::now() < end) rows = read(*strict);
        return rows;
    };
    add("before");
    PlainConnection other(store_.server().conninfo());
    other.column("begin");
    other.column("insert into outbox (aggregate_id, event_type, payload) values ('a', 'First', '{}')");
    add("a");
    auto rows = read_once_free(1);
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_FALSE(rows[0].held_back);
    EXPECT_TRUE(rows[1].held_back) << "the other transaction may commit an earlier one";
    EXPECT_FALSE(read(*outbox_).at(1).held_back) << "not asked for";
    store_.execute("update outbox set retry_count = 1 where aggregate_id = 'a'");
    EXPECT_FALSE(read(*strict).at(0).held_back) << "it was sent once already";
    other.column("commit");
    store_.execute("update outbox set retry_count = 0");
    rows = read_once_free(3);
    ASSERT_EQ(rows.size(), 3U);
    for (const EventRow& row : rows) EXPECT_FALSE(row.held_back);
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

TEST_F(PostgresEventsAtWork, RelaysATableWithUuids) {
    store_.execute(
        "create schema shop; create table shop.events (id uuid primary key, aggregatetype varchar(255) not null,"
        " aggregateid varchar(255) not null, type varchar(255) not null, payload jsonb)");
    EventTable foreign = table();
    foreign.lane = "shop";
    foreign.table = "shop.events";
    foreign.columns = EventColumns::debezium();
    const auto shop = outbox(foreign);
    const std::string first = "0190aaaa-0000-7000-8000-00000000000a";
    const std::string second = "0190bbbb-0000-7000-8000-00000000000b";
    store_.execute("insert into shop.events values ('" + first + "', 'order', 'o-1', 'Paid', '{\"a\":1}'), ('" +
                   second + "', 'order', 'o-1', 'Sent', '{}')");
    auto rows = read(*shop);
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[0].row_id, first);
    EXPECT_EQ(rows[0].sequence, 0);
    EXPECT_EQ(rows[0].message.message_id, first);
    EXPECT_EQ(rows[0].message.body, "{\"a\": 1}");
    EXPECT_EQ(rows[0].message.aggregate_type, "order");

    const ShardLease held = lease(*shop, "r", rows[0].shard);
    EXPECT_EQ(settle(*shop, "r", settlement(rows[0], held, SettleKind::retry)), EventSettled::applied);
    EXPECT_EQ(count("outbox_audit where outbox_id = 0 and idempotency_key = '" + first + "'"), "1");
    rows = read(*shop);
    EXPECT_THAT(ids(rows), ElementsAre(first)) << "due at once, and the other waits";
    EXPECT_EQ(rows.at(0).message.failures, 1);
    const std::vector<EventSettlement> batch = {settlement(rows[0], held), settlement(rows[0], held)};
    EXPECT_THAT(must(shop->settle("r", batch)), ElementsAre(EventSettled::applied, EventSettled::conflict));
    EXPECT_THAT(ids(read(*shop)), ElementsAre(second));
    EXPECT_EQ(count("deliverd.event_failures"), "0");
    EventSettlement wrong = settlement(rows[0], held);
    wrong.row_id = "7";
    conformance::expect_refused(shop->settle("r", std::span(&wrong, 1)), "row_id");
}

TEST_F(PostgresEventsAtWork, GivesPayloadsOfEveryTypeAsTheirText) {
    for (const std::string type : {"jsonb", "json", "text", "bytea"}) {
        store_.execute("create table t_" + type +
                       " (id int primary key, aggregateid uuid, aggregatetype text,"
                       " type text, payload " +
                       type + ")");
        store_.execute("insert into t_" + type +
                       " values (1, '0190aaaa-0000-7000-8000-00000000000a', 'x', 'T', '{\"a\": 1}')");
        EventTable foreign = table();
        foreign.lane = type;
        foreign.table = "t_" + type;
        foreign.columns = EventColumns::debezium();
        const auto rows = read(*outbox(foreign));
        ASSERT_EQ(rows.size(), 1U);
        EXPECT_EQ(rows[0].message.body, "{\"a\": 1}") << type;
        EXPECT_EQ(rows[0].message.key, "0190aaaa-0000-7000-8000-00000000000a");
        EXPECT_EQ(rows[0].row_id, "1");
    }
}

TEST_F(PostgresEventsAtWork, SaysWhichTablesCannotBeRelayed) {
    store_.execute("create table bad (id text, aggregateid text, aggregatetype text, type text, payload text)");
    EventTable foreign = table();
    foreign.table = "bad";
    foreign.columns = EventColumns::debezium();
    EventRead request;
    request.shards = {0};
    request.limit = 1;
    const auto refused = outbox(foreign)->read(request);
    conformance::expect_refused(refused, "neither a number nor a uuid");
    foreign.table = "nowhere";
    conformance::expect_refused(outbox(foreign)->read(request), "there is no table public.nowhere");
}

TEST_F(PostgresEventsAtWork, NoticesATableThatWasChangedWhileItRuns) {
    add("a");
    EXPECT_EQ(read(*outbox_).size(), 1U);
    store_.execute("alter table outbox alter column aggregate_id type text");
    EXPECT_TRUE(wait_until([&] {
        EventRead request;
        request.shards = {0, 1, 2, 3};
        request.limit = 10;
        const auto again = outbox_->read(request);
        return again && again->rows.size() == 1;
    }));
}

class PostgresPartitions : public PostgresEventsAtWork {
protected:
    /// A partitioned outbox of someone's own, one partition for 100 ids.
    void SetUp() override {
        store_.execute(
            "drop table outbox;"
            "create table outbox (id bigint not null, aggregate_id text not null, event_type text not null default 'T',"
            " payload jsonb not null default '{}', created_at timestamptz not null default now(), published_at "
            "timestamptz,"
            " published boolean not null default false, event_id uuid not null default gen_random_uuid(),"
            " metadata jsonb not null default '{}', retry_count int not null default 0, next_attempt_at timestamptz,"
            " last_error text, dead_at timestamptz, primary key (id)) partition by range (id)");
        for (int n = 0; n < 4; ++n) {
            store_.execute("create table part" + std::to_string(n) + " partition of outbox for values from (" +
                           std::to_string(n * 100) + ") to (" + std::to_string((n + 1) * 100) + ")");
        }
        store_.execute("insert into outbox (id, aggregate_id) select n, 'a' || n from generate_series(0, 250) as n");
    }
    void publish(const std::string& where) {
        store_.execute("update outbox set published = true, published_at = now() - interval '8 days' where " + where);
    }
    std::string partitions() {
        return store_.value(
            "select string_agg(inhrelid::regclass::text, ',' order by inhrelid) from pg_inherits"
            " where inhparent = 'outbox'::regclass");
    }
    std::int64_t remove() { return must(outbox_->remove_published(std::chrono::hours(24 * 7), 1000)); }
};

TEST_F(PostgresPartitions, AreReadAndSettled) {
    const auto rows = read(*outbox_);
    ASSERT_EQ(rows.size(), 251U);
    EXPECT_EQ(settle(*outbox_, "r", settlement(rows[150], lease(*outbox_, "r", rows[150].shard))),
              EventSettled::applied);
    EXPECT_EQ(count("part1 where published"), "1");
}

TEST_F(PostgresPartitions, AreDroppedWhenAllOfOneWasPublishedLongAgo) {
    publish("id < 100");
    EXPECT_EQ(remove(), 100);
    EXPECT_EQ(partitions(), "part1,part2,part3");
    EXPECT_EQ(remove(), 0);
    EXPECT_EQ(count("outbox"), "151");
}

TEST_F(PostgresPartitions, StayWhileSomethingInThemIsOpenDeadOrYoung) {
    publish("id < 200 and id <> 50");
    store_.execute("update outbox set published_at = now() where id = 150");
    store_.execute("update outbox set dead_at = now() where id = 50");
    EXPECT_EQ(remove(), 198) << "row by row";
    EXPECT_EQ(partitions(), "part0,part1,part2,part3");
    EXPECT_EQ(count("outbox where id in (50, 150)"), "2");
}

TEST_F(PostgresPartitions, TheOneThatIsWrittenToIsNotDropped) {
    publish("true");
    EXPECT_EQ(remove(), 100);
    EXPECT_EQ(remove(), 100);
    EXPECT_EQ(partitions(), "part2,part3") << "the empty one is for what is to come";
    EXPECT_EQ(remove(), 51) << "row by row";
    EXPECT_EQ(partitions(), "part2,part3");
    store_.execute("insert into outbox (id, aggregate_id) values (251, 'x')");
}

TEST_F(PostgresPartitions, AreLeftAloneWhileSomeoneUsesThem) {
    publish("id < 100");
    PlainConnection other(store_.server().conninfo());
    other.column("begin");
    other.column("select count(*) from outbox");
    EXPECT_EQ(remove(), 100) << "the rows go one by one";
    EXPECT_EQ(partitions(), "part0,part1,part2,part3");
    other.column("rollback");
}

}  // namespace
}  // namespace deliverd::store::postgres
