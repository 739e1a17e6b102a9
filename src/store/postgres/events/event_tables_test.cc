// Which tables the event outbox relays on PostgreSQL beyond what every store does: uuids, columns of every type,
// partitions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "store/postgres/testing/test_events.h"

namespace deliverd::store::postgres {
namespace {

using conformance::must;
using ::testing::ElementsAre;

class PostgresEventTables : public PostgresEvents {};

TEST_F(PostgresEventTables, RelaysATableWithUuids) {
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

TEST_F(PostgresEventTables, GivesPayloadsOfEveryTypeAsTheirText) {
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

/// The empty aggregate is no uuid and no number.
TEST_F(PostgresEventTables, AnAggregateOfAnyTypeMayBeNull) {
    for (const std::string type : {"uuid", "bigint", "text"}) {
        const std::string named = type == "bigint" ? "7" : "0190aaaa-0000-7000-8000-00000000000a";
        store_.execute("create table " + type + "_events (id int primary key, aggregateid " + type +
                       ", aggregatetype text, type text, payload text)");
        store_.execute("insert into " + type + "_events (id, aggregateid) values (1, null), (2, '" + named +
                       "'), (3, null)");
        EventTable foreign = table();
        foreign.lane = type;
        foreign.table = type + "_events";
        foreign.columns = EventColumns::debezium();
        const auto theirs = outbox(foreign);
        const auto rows = read(*theirs);
        EXPECT_THAT(ids(rows), ElementsAre("1", "2", "3")) << type;
        EventRead request;
        request.shards = {0, 1, 2, 3};
        request.follow_limit = 10;
        request.follow = {{"", std::nullopt}, {named, std::nullopt}};
        EXPECT_THAT(ids(must(theirs->read(request)).rows), ElementsAre("1", "2", "3")) << type;
        const ShardLease held = lease(*theirs, "r", rows.at(0).shard);
        EXPECT_EQ(settle(*theirs, "r", settlement(rows[0], held, SettleKind::retry)), EventSettled::applied);
        EXPECT_THAT(ids(read(*theirs)), ElementsAre("1", "2")) << type << ": due at once, and the last one waits";
    }
}

TEST_F(PostgresEventTables, SaysWhichTablesCannotBeRelayed) {
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

TEST_F(PostgresEventTables, NoticesATableThatWasChangedWhileItRuns) {
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

class PostgresPartitions : public PostgresEvents {
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

/// A function that takes for ever stands in for a partition of that size.
TEST_F(PostgresPartitions, ThatCannotBeLookedOverInTimeAreEmptiedRowByRow) {
    store_.execute("create sequence looks");
    store_.execute(
        "create or replace function deliverd.published_partition(parent regclass, id_column name, published_column "
        "name,"
        " published_at_column name, age interval) returns table (child regclass, rows bigint) language plpgsql as"
        " 'begin perform nextval(''public.looks''); perform pg_sleep(600); end'");
    publish("id < 100");
    PostgresOptions options = store_.server().options();
    options.statement_timeout = std::chrono::seconds(2);  // the deletes have to be done in it
    NullLog log;
    const auto impatient = must(open_postgres(options, log));
    const auto outbox = must(impatient->event_outbox(table()));
    const auto remove_some = [&] { return must(outbox->remove_published(std::chrono::hours(24 * 7), 60)); };
    EXPECT_EQ(remove_some(), 60);
    EXPECT_EQ(remove_some(), 40);
    EXPECT_EQ(partitions(), "part0,part1,part2,part3");
    EXPECT_EQ(count("outbox"), "151");
    EXPECT_EQ(store_.value("select last_value from looks"), "1") << "it is not waited for each time";
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
