// What is SQLite's own about the event outbox: its shards, its plans, and ids that are not numbers.
#include "store/sqlite/events/event_outbox.h"

#include <gmock/gmock.h>

#include <map>
#include <numeric>

#include "store/sqlite/events/event_sql.h"
#include "store/sqlite/file/row_values.h"
#include "store/sqlite/testing/test_store.h"

namespace deliverd::store::sqlite {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::int32_t kShards = 8;

EventTable own_table() {
    EventTable table;
    table.lane = "events";
    table.shards = kShards;
    return table;
}

EventRead everything() {
    EventRead request;
    request.shards.resize(kShards);
    std::iota(request.shards.begin(), request.shards.end(), 0);
    request.limit = 100;
    request.due_limit = 100;
    return request;
}

/// Published vectors of FNV-1a, 64 bits, and what becomes of them here: a file is relayed by programs of several
/// versions at once, so this must never change.
TEST(EventShard, IsTheSameForEver) {
    const auto folded = [](std::uint64_t fnv, std::uint64_t shards) {
        return static_cast<std::int32_t>((fnv ^ (fnv >> 32U)) % shards);
    };
    EXPECT_EQ(shard_of("", 64), folded(0xcbf29ce484222325U, 64));
    EXPECT_EQ(shard_of("a", 64), folded(0xaf63dc4c8601ec8cU, 64));
    EXPECT_EQ(shard_of("foobar", 64), folded(0x85944171f73967e8U, 64));
    EXPECT_EQ(shard_of("foobar", 7), folded(0x85944171f73967e8U, 7));
    EXPECT_EQ(shard_of("anything", 1), 0);
}

TEST(EventShard, SpreadsAggregatesEvenly) {
    std::map<std::int32_t, int> counts;
    for (int n = 0; n < 64'000; ++n) ++counts[shard_of("order-" + std::to_string(n), 64)];
    ASSERT_EQ(counts.size(), 64U);
    for (const auto& [shard, count] : counts) {
        EXPECT_GT(count, 800) << shard;
        EXPECT_LT(count, 1200) << shard;
    }
}

/// The plan of a statement on a store that is full of published rows, one line a step.
class EventPlan : public ::testing::Test {
protected:
    EventPlan() : store_(true), file_(must(File::open(path(), std::chrono::seconds(5)))) {}
    std::string path() { return store_.value("select file from pragma_database_list where name = 'main'"); }
    std::vector<std::string> plan(const std::string& sql) {
        auto handle = must(file_->reader());
        return must(handle->all("explain query plan " + sql,
                                [](const SqliteStatement& row) { return row.get<std::string>(3); }));
    }
    SqliteTestStore store_;
    std::unique_ptr<File> file_;
};

TEST_F(EventPlan, OurOwnTableIsReadByItsIndexes) {
    EventTable table = own_table();
    table.block_behind_dead = true;
    const EventSql sql(table, true, EventNulls{});
    const auto walks_nothing = testing::Each(Not(AllOf(HasSubstr("SCAN o"), Not(HasSubstr("USING INDEX")))));
    for (const bool after : {false, true}) {
        for (const bool up_to : {false, true}) {
            const auto steps = plan(sql.forward(after, up_to));
            EXPECT_THAT(steps, walks_nothing);
            EXPECT_THAT(steps, testing::Contains(AllOf(HasSubstr(" o "), HasSubstr("outbox_open"))));
            EXPECT_THAT(steps, testing::Contains(HasSubstr("outbox_waiting_aggregate (aggregate_id=? AND id<?)")));
            EXPECT_THAT(steps, testing::Contains(HasSubstr("outbox_dead (aggregate_id=? AND id<?)")));
            EXPECT_THAT(steps, Not(testing::Contains(HasSubstr("TEMP B-TREE FOR ORDER"))));
        }
        const auto steps = plan(sql.follow(after, false));
        EXPECT_THAT(steps, testing::Contains(HasSubstr("SEARCH o USING INDEX outbox_open_aggregate (aggregate_id=?")));
        EXPECT_THAT(steps, Not(testing::Contains(HasSubstr("TEMP B-TREE FOR ORDER"))));
    }
    EXPECT_THAT(plan(sql.forward(true, false)),
                testing::Contains(HasSubstr("SEARCH o USING INDEX outbox_open (id>?)")));
    const auto due = plan(sql.due());
    EXPECT_THAT(due, testing::Contains(HasSubstr("SEARCH o USING INDEX outbox_waiting_due (<expr><?)")));
    EXPECT_THAT(due, testing::Contains(HasSubstr("outbox_waiting_aggregate (aggregate_id=? AND id<?)")));
    EXPECT_THAT(due, Not(testing::Contains(HasSubstr("TEMP B-TREE FOR ORDER"))));
    EXPECT_THAT(plan(sql.lag(true)), ElementsAre(HasSubstr("outbox_open")));
    EXPECT_THAT(plan(sql.remove_published()), testing::Contains(HasSubstr("outbox_published (<expr><?)")));
    for (const std::string& settling : {sql.sent(), sql.retry(), sql.dead()}) {
        EXPECT_THAT(plan(settling), ElementsAre(HasSubstr("USING INTEGER PRIMARY KEY (rowid=?)")));
    }
}

TEST_F(EventPlan, FailuresOfATableOfOthersAreLookedUp) {
    store_.execute(
        "create table theirs (id integer primary key, aggregatetype text, aggregateid text, type text, payload text)");
    EventTable table = own_table();
    table.table = "theirs";
    table.columns = EventColumns::debezium();
    for (const bool nulls : {false, true}) {
        const EventSql sql(table, false, EventNulls{nulls, nulls, nulls});
        for (const std::string& reading : {sql.forward(true, false), sql.due(), sql.follow(true, nulls)}) {
            EXPECT_THAT(plan(reading), Not(testing::Contains(testing::ContainsRegex("SCAN [ofw]( |$)")))) << reading;
        }
    }
}

TEST_F(EventPlan, AnAggregateThatMayBeNullIsLookedUpByItsIndex) {
    store_.execute(
        "create table theirs (id integer primary key, aggregate_id text, event_type text, payload text, created_at "
        "text,"
        " published integer, published_at text, event_id text, metadata text, retry_count integer, next_attempt_at "
        "text,"
        " last_error text, dead_at text)");
    store_.execute("create index by_aggregate on theirs (aggregate_id, id)");
    EventTable table = own_table();
    table.table = "theirs";
    const EventSql sql(table, false, EventNulls{true, true, true});
    EXPECT_THAT(plan(sql.follow(true, false)),
                testing::Contains(HasSubstr("SEARCH o USING INDEX by_aggregate (aggregate_id=? AND id>?)")));
    EXPECT_THAT(plan(sql.forward(true, false)),
                testing::Contains(HasSubstr("SEARCH w USING INDEX by_aggregate (aggregate_id=? AND id<?)")));
}

class ForeignEvents : public ::testing::Test {
protected:
    ForeignEvents() : store_(true) {}
    std::unique_ptr<EventOutbox> outbox(const EventTable& table) { return must(store_.database().event_outbox(table)); }
    static std::vector<std::string> row_ids(const EventBatch& batch) {
        std::vector<std::string> ids;
        for (const EventRow& row : batch.rows) ids.push_back(row.row_id);
        return ids;
    }
    SqliteTestStore store_;
};

TEST_F(ForeignEvents, IdsMayBeUuids) {
    store_.execute(
        "create table theirs (id uuid primary key, aggregatetype text, aggregateid text, type text, payload text)");
    store_.execute(
        "insert into theirs values ('7f000000-0000-4000-8000-000000000000', 'order', 'a', 'T', '{}'),"
        " ('0a000000-0000-4000-8000-000000000000', 'order', 'a', 'T', '{}'),"
        " ('5e100000-0000-4000-8000-000000000000', 'order', 'b', 'T', '{}')");
    EventTable table = own_table();
    table.table = "theirs";
    table.columns = EventColumns::debezium();
    const auto theirs = outbox(table);
    auto batch = must(theirs->read(everything()));
    ASSERT_THAT(row_ids(batch), ElementsAre(HasSubstr("0a0"), HasSubstr("5e1"), HasSubstr("7f0")));
    EXPECT_EQ(batch.rows[0].sequence, 0);
    EXPECT_EQ(batch.rows[0].message.id, 0);
    EXPECT_EQ(batch.rows[0].message.message_id, batch.rows[0].row_id);
    const auto held = must(theirs->tend("r", std::chrono::seconds(60))).held;
    const auto settle = [&](const EventRow& row, SettleKind kind) {
        EventSettlement one;
        one.row_id = row.row_id;
        one.aggregate_id = row.message.key;
        one.lease = held.at(static_cast<std::size_t>(row.shard));
        one.settlement.kind = kind;
        one.settlement.failures_before = row.message.failures;
        one.settlement.error = "BROKER_5XX: no";
        return must(theirs->settle("r", std::span(&one, 1))).at(0);
    };
    EXPECT_EQ(settle(batch.rows[1], SettleKind::sent), EventSettled::applied);
    EXPECT_EQ(settle(batch.rows[0], SettleKind::retry), EventSettled::applied);
    EXPECT_EQ(store_.value("select idempotency_key from outbox_audit where outbox = 'events' and outbox_id = 0"),
              "0a000000-0000-4000-8000-000000000000");
    batch = must(theirs->read(everything()));
    ASSERT_THAT(row_ids(batch), ElementsAre(HasSubstr("0a0")));
    EXPECT_EQ(batch.rows[0].origin, EventOrigin::due);
    EXPECT_EQ(settle(batch.rows[0], SettleKind::sent), EventSettled::applied);
    EXPECT_EQ(store_.value("select count(*) from theirs"), "1");
    EXPECT_EQ(store_.value("select count(*) from deliverd_event_failures"), "0");
}

/// A column that has the name of something in our statements, and names that need quoting.
TEST_F(ForeignEvents, ColumnsMayBeCalledAnything) {
    store_.execute(
        "create table \"odd \"\"table\" (shard integer primary key, \"select\" text, \"a\"\"b\" text, now text)");
    store_.execute("insert into \"odd \"\"table\" values (3, 'x', 'T', '[1]')");
    EventTable table = own_table();
    table.table = "main.odd \"table";
    table.columns = EventColumns::debezium();
    table.columns.id = "shard";
    table.columns.aggregate_id = "select";
    table.columns.aggregate_type = "";
    table.columns.event_type = "a\"b";
    table.columns.payload = "now";
    const auto batch = must(outbox(table)->read(everything()));
    ASSERT_EQ(batch.rows.size(), 1U);
    EXPECT_EQ(batch.rows[0].row_id, "3");
    EXPECT_EQ(batch.rows[0].shard, shard_of("x", kShards));
    EXPECT_EQ(batch.rows[0].message.body, "[1]");
}

/// Somebody else's `outbox` that has our columns but not our indexes.
TEST_F(ForeignEvents, WithoutOurIndexesATableIsRelayedAllTheSame) {
    store_.execute("drop index outbox_open");
    store_.execute("insert into outbox (aggregate_id, event_type, payload) values ('a', 'T', '{}')");
    EXPECT_THAT(row_ids(must(outbox(own_table())->read(everything()))), ElementsAre("1"));
}

TEST_F(ForeignEvents, ThePayloadTravelsByteForByte) {
    const std::string payload = " {\"b\" :1e2,\n\t\"a\":[ 1.0 , \"\\u00e4ä\" ]}\n";
    store_.execute("insert into outbox (aggregate_id, event_type, payload) values ('a', 'T', '" + payload + "')");
    EXPECT_EQ(must(outbox(own_table())->read(everything())).rows.at(0).message.body, payload);
}

TEST_F(ForeignEvents, NobodyNotifies) {
    EXPECT_EQ(outbox(own_table())->listen([] {}), nullptr);
}

}  // namespace
}  // namespace deliverd::store::sqlite
