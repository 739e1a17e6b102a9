// What the suites on event tables share. Only tests include this.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "store/conformance/test_store.h"
#include "store/events.h"

namespace deliverd::store::conformance {

/// The store, and what its own tables are called there.
struct EventsKind {
    StoreKind store;
    std::string shards;
    std::string relays;
    std::string failures;
    std::string letters{};
    std::string redrives{};
    friend void PrintTo(const EventsKind& kind, std::ostream* out) { *out << kind.store.name; }
};

class EventsFixture : public ::testing::TestWithParam<EventsKind> {
protected:
    static constexpr std::int32_t kShards = 8;
    static constexpr Duration kLease = std::chrono::seconds(60);

    void SetUp() override {
        store_ = GetParam().store.make();
        outbox_ = outbox();
    }

    static EventTable table() {
        EventTable table;
        table.lane = "events";
        table.shards = kShards;
        return table;
    }
    std::unique_ptr<EventOutbox> outbox(const EventTable& table) {
        return must(store_->database().event_outbox(table));
    }
    std::unique_ptr<EventOutbox> outbox() { return outbox(table()); }

    /// A plain INSERT, as applications write it; answers the id.
    std::int64_t add(const std::string& aggregate, const std::string& type = "OrderCreated",
                     const std::string& payload = "{\"n\": 1}") {
        store_->execute("insert into outbox (aggregate_id, event_type, payload) values ('" + aggregate + "', '" + type +
                        "', '" + payload + "')");
        return std::stoll(store_->value("select max(id) from outbox"));
    }
    /// As if the row had failed before: due again this many seconds from now.
    void set_waiting(std::int64_t id, int seconds_from_now, int failures = 1) {
        store_->execute("update outbox set retry_count = " + std::to_string(failures) + ", next_attempt_at = " +
                        store_->time_expression(seconds_from_now) + " where id = " + std::to_string(id));
    }
    void set_dead(std::int64_t id) {
        store_->execute("update outbox set retry_count = 1, dead_at = " + store_->time_expression(0) +
                        " where id = " + std::to_string(id));
    }

    static std::vector<std::int32_t> all_shards(std::int32_t count = kShards) {
        std::vector<std::int32_t> shards(static_cast<std::size_t>(count));
        std::iota(shards.begin(), shards.end(), 0);
        return shards;
    }
    static EventRead everything() {
        EventRead request;
        request.shards = all_shards();
        request.limit = 1000;
        request.due_limit = 1000;
        return request;
    }
    std::vector<EventRow> read(const EventRead& request, EventOutbox* from = nullptr) {
        return must((from == nullptr ? *outbox_ : *from).read(request)).rows;
    }
    std::vector<EventRow> read() { return read(everything()); }
    EventRow only(const EventRead& request) {
        auto rows = read(request);
        EXPECT_EQ(rows.size(), 1U);
        return rows.empty() ? EventRow() : rows.front();
    }
    static std::vector<std::int64_t> ids(const std::vector<EventRow>& rows,
                                         std::optional<EventOrigin> origin = std::nullopt) {
        std::vector<std::int64_t> out;
        for (const EventRow& row : rows) {
            if (!origin || row.origin == *origin) out.push_back(row.sequence);
        }
        return out;
    }
    std::vector<std::int64_t> forward_ids() { return ids(read(), EventOrigin::forward); }
    std::vector<std::int64_t> follow_ids(const std::string& aggregate, std::optional<std::int64_t> after = {},
                                         std::int32_t limit = 100, EventOutbox* from = nullptr) {
        EventRead request;
        request.shards = all_shards();
        request.follow_limit = limit;
        request.follow.push_back({aggregate, after ? std::optional(std::to_string(*after)) : std::nullopt});
        const auto rows = read(request, from);
        for (const EventRow& row : rows) EXPECT_EQ(row.origin, EventOrigin::follow);
        return ids(rows);
    }

    /// What the owner holds after a heartbeat.
    std::map<std::int32_t, ShardLease> tend(const std::string& owner, EventOutbox* with = nullptr) {
        std::map<std::int32_t, ShardLease> leases;
        for (const ShardLease& lease : must((with == nullptr ? *outbox_ : *with).tend(owner, kLease)).held) {
            leases.emplace(lease.shard, lease);
        }
        return leases;
    }
    static EventSettlement settlement(const EventRow& row, ShardLease lease, SettleKind kind = SettleKind::sent) {
        EventSettlement out;
        out.row_id = row.row_id;
        out.aggregate_id = row.message.key;
        out.lease = lease;
        out.settlement.id = row.sequence;
        out.settlement.kind = kind;
        out.settlement.failures_before = row.message.failures;
        if (kind == SettleKind::retry || kind == SettleKind::dead) {
            out.settlement.error = "BROKER_5XX: no";
            out.settlement.code = "BROKER_5XX";
        }
        if (kind == SettleKind::retry) out.settlement.delay = std::chrono::hours(1);
        return out;
    }
    EventSettled settle(const std::string& owner, const EventSettlement& one, EventOutbox* with = nullptr) {
        return must((with == nullptr ? *outbox_ : *with).settle(owner, std::span(&one, 1))).at(0);
    }
    EventSettled settle(const EventRow& row, SettleKind kind = SettleKind::sent) {
        return settle("r", settlement(row, tend("r").at(row.shard), kind));
    }

    std::string state(std::int64_t id, const std::string& columns) {
        return store_->value("select " + columns + " from outbox where id = " + std::to_string(id));
    }
    std::string count(const std::string& from) { return store_->value("select count(*) from " + from); }

    std::unique_ptr<TestStore> store_;
    std::unique_ptr<EventOutbox> outbox_;
};

class EventTableFixture : public EventsFixture {
protected:
    /// A table as Debezium's outbox router wants it, with numbers as ids.
    std::unique_ptr<EventOutbox> debezium() {
        store_->execute(
            "create table shop_events (id bigint primary key, aggregatetype varchar(255) not null,"
            " aggregateid varchar(255) not null, type varchar(255) not null, payload text)");
        return outbox(debezium_table());
    }
    static EventTable debezium_table() {
        EventTable foreign = table();
        foreign.lane = "shop";
        foreign.table = "shop_events";
        foreign.columns = EventColumns::debezium();
        return foreign;
    }
    void add_foreign(std::int64_t id, const std::string& aggregate) {
        store_->execute("insert into shop_events values (" + std::to_string(id) + ", 'order', '" + aggregate +
                        "', 'OrderPaid', '{\"id\": " + std::to_string(id) + "}')");
    }
    /// A table that keeps everything itself and lets everything be null.
    EventTable journal_table() {
        store_->execute(
            "create table journal (no bigint primary key, subject varchar(100), kind varchar(100), body text,"
            " key varchar(100), more text, at timestamp, done boolean, done_at timestamp, tries int, again timestamp,"
            " why text, gone timestamp)");
        EventTable journal = table();
        journal.lane = "journal";
        journal.table = "journal";
        journal.columns = EventColumns{"no", "subject", "",        "kind",  "body",  "key", "more",
                                       "at", "done",    "done_at", "tries", "again", "why", "gone"};
        return journal;
    }
    /// The same rows without an aggregate: rows 1, 2 and 4 are of the empty one, which 2 says itself.
    void expect_null_is_the_empty_aggregate(const EventTable& foreign) {
        const auto relayed = outbox(foreign);
        const auto rows = read(everything(), relayed.get());
        ASSERT_THAT(ids(rows), ::testing::ElementsAre(1, 2, 3, 4));
        for (const int row : {0, 1, 3}) {
            EXPECT_EQ(rows[static_cast<std::size_t>(row)].message.key, "");
            EXPECT_EQ(rows[static_cast<std::size_t>(row)].shard, rows[0].shard);
        }
        EventRead one_shard = everything();
        one_shard.shards = {rows[0].shard};
        EXPECT_THAT(ids(read(one_shard, relayed.get())), ::testing::IsSupersetOf({1, 2, 4}));
        EXPECT_THAT(follow_ids("", {}, 10, relayed.get()), ::testing::ElementsAre(1, 2, 4));
        EXPECT_THAT(follow_ids("", 1, 1, relayed.get()), ::testing::ElementsAre(2));
        EXPECT_THAT(follow_ids("", 2, 10, relayed.get()), ::testing::ElementsAre(4));
        EXPECT_THAT(follow_ids("s", {}, 10, relayed.get()), ::testing::ElementsAre(3));

        EXPECT_EQ(settle_foreign(*relayed, 1, SettleKind::retry, true), EventSettled::applied);
        EXPECT_THAT(ids(read(everything(), relayed.get())), ::testing::ElementsAre(1, 3)) << "the others wait";
        EXPECT_THAT(follow_ids("", {}, 10, relayed.get()), ::testing::ElementsAre(1, 2, 4));
        EXPECT_EQ(settle_foreign(*relayed, 1, SettleKind::retry), EventSettled::applied);
        EXPECT_THAT(ids(read(everything(), relayed.get())), ::testing::ElementsAre(3));
        EXPECT_THAT(follow_ids("", {}, 10, relayed.get()), ::testing::IsEmpty());
        EXPECT_EQ(settle_foreign(*relayed, 3, SettleKind::sent), EventSettled::applied);
    }
    /// Row 1 of it is dead, row 3 is gone or published.
    void expect_behind_a_dead_one(EventTable foreign) {
        EXPECT_THAT(ids(read(everything(), outbox(foreign).get())), ::testing::ElementsAre(2, 4));
        foreign.block_behind_dead = true;
        const auto blocking = outbox(foreign);
        EXPECT_THAT(ids(read(everything(), blocking.get())), ::testing::IsEmpty());
        EXPECT_THAT(follow_ids("", {}, 10, blocking.get()), ::testing::IsEmpty());
    }
    EventSettled settle_foreign(EventOutbox& foreign, std::int64_t id, SettleKind kind, bool soon = false) {
        for (const EventRow& row : read(everything(), &foreign)) {
            if (row.sequence != id) continue;
            EventSettlement one = settlement(row, tend("r", &foreign).at(row.shard), kind);
            if (soon) one.settlement.delay = Duration::zero();
            return settle("r", one, &foreign);
        }
        ADD_FAILURE() << id << " is not there to be sent";
        return EventSettled::conflict;
    }
    static std::vector<std::string> wrong(const std::vector<Finding>& findings) {
        std::vector<std::string> out;
        for (const Finding& finding : findings) {
            if (!finding.ok) out.push_back(finding.message);
        }
        return out;
    }
};

}  // namespace deliverd::store::conformance
