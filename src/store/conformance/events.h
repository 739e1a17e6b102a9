// The guarantees of store/events.h about reading and settling, for every store. Included by one test file of each,
// which instantiates EventsConformance. What is about shards is in events_shards.h, what is about the table
// in events_table.h.
#pragma once

#include "store/conformance/events_fixture.h"

namespace deliverd::store::conformance {

class EventsConformance : public EventsFixture {};

TEST_P(EventsConformance, ARowIsAMessage) {
    store_->execute(
        "insert into outbox (aggregate_id, event_type, payload, metadata) values ('order-1', 'OrderCreated',"
        " '{\"total\": 42, \"who\": \"grüße \\\"x\\\"\"}', '{\"trace\": \"t-1\", \"tries\": 3}')");
    const EventRow row = only(everything());
    EXPECT_EQ(row.row_id, "1");
    EXPECT_EQ(row.sequence, 1);
    EXPECT_EQ(row.origin, EventOrigin::forward);
    EXPECT_GE(row.shard, 0);
    EXPECT_LT(row.shard, kShards);
    EXPECT_GE(row.age_seconds, 0);
    EXPECT_LT(row.age_seconds, 60);
    const Message& message = row.message;
    EXPECT_EQ(message.id, 1);
    EXPECT_EQ(message.message_id, state(1, "event_id"));
    EXPECT_EQ(message.message_id.size(), 36U);
    EXPECT_EQ(message.key, "order-1");
    EXPECT_EQ(message.type, "OrderCreated");
    EXPECT_EQ(message.body, state(1, "payload")) << "as the database prints it";
    EXPECT_EQ(message.content_type, "application/json");
    EXPECT_EQ(message.aggregate_type, "");
    EXPECT_EQ(message.failures, 0);
    EXPECT_THAT(message.created_at,
                ::testing::MatchesRegex("20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3,6}Z"));
    EXPECT_THAT(message.headers, ::testing::UnorderedElementsAre(std::pair("trace", "t-1"), std::pair("tries", "3")));
}

TEST_P(EventsConformance, AnswersTheAgeOfARow) {
    add("a");
    store_->execute("update outbox set created_at = " + store_->time_expression(-100));
    EXPECT_GE(only(everything()).age_seconds, 99.9);
    EXPECT_LT(only(everything()).age_seconds, 200);
}

TEST_P(EventsConformance, ReadsForwardInIdOrderBetweenPositions) {
    for (int n = 1; n <= 10; ++n) add("a" + std::to_string(n % 3));
    EventRead request = everything();
    request.limit = 4;
    EXPECT_THAT(ids(read(request)), ::testing::ElementsAre(1, 2, 3, 4));
    request.after = "4";
    EXPECT_THAT(ids(read(request)), ::testing::ElementsAre(5, 6, 7, 8));
    request.up_to = "6";
    EXPECT_THAT(ids(read(request)), ::testing::ElementsAre(5, 6));
    request.after.reset();
    request.limit = 100;
    EXPECT_THAT(ids(read(request)), ::testing::ElementsAre(1, 2, 3, 4, 5, 6));
    request.limit = 0;
    EXPECT_TRUE(read(request).empty());
    EXPECT_EQ(read().size(), 10U) << "reading changes nothing";
}

TEST_P(EventsConformance, ReadsOnlyOpenRows) {
    for (int n = 1; n <= 4; ++n) add("a" + std::to_string(n));
    store_->execute("update outbox set published = (1 = 1) where id = 1");
    set_dead(2);
    set_waiting(3, 3600);
    EXPECT_THAT(ids(read()), ::testing::ElementsAre(4));
}

TEST_P(EventsConformance, ReadsOnlyTheShardsAskedFor) {
    for (int n = 0; n < 60; ++n) add("a" + std::to_string(n % 30));
    set_waiting(1, -10);
    set_waiting(2, -10);
    std::map<std::string, std::set<std::int32_t>> shards_of;
    std::multiset<std::int64_t> seen;
    for (const std::int32_t shard : all_shards()) {
        EventRead request = everything();
        request.shards = {shard};
        request.follow_limit = 100;
        for (int n = 3; n < 30; ++n) request.follow.push_back({"a" + std::to_string(n), std::nullopt});
        for (const EventRow& row : read(request)) {
            EXPECT_EQ(row.shard, shard);
            shards_of[row.message.key].insert(row.shard);
            if (row.origin != EventOrigin::follow) seen.insert(row.sequence);
        }
    }
    EXPECT_EQ(shards_of.size(), 30U);
    for (const auto& [aggregate, shards] : shards_of) EXPECT_EQ(shards.size(), 1U) << aggregate;
    EXPECT_EQ(seen.size(), 58U) << "all but the two behind a waiting one";
    EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 58U) << "each in one shard";
    EventRead none = everything();
    none.shards.clear();
    EXPECT_TRUE(read(none).empty());
}

TEST_P(EventsConformance, WhatComesAfterAWaitingRowWaitsWithIt) {
    add("a");
    add("a");
    add("b");
    add("a");
    set_waiting(2, 3600);
    EXPECT_THAT(ids(read()), ::testing::ElementsAre(1, 3)) << "row 1 is before it, row 4 behind it";
    set_waiting(2, -5, 3);
    const auto rows = read();
    EXPECT_THAT(ids(rows), ::testing::ElementsAre(2, 1, 3)) << "due first; row 4 still waits";
    EXPECT_EQ(rows[0].origin, EventOrigin::due);
    EXPECT_EQ(rows[0].message.failures, 3);
    EXPECT_EQ(rows[1].origin, EventOrigin::forward);
}

TEST_P(EventsConformance, OnlyTheFirstWaitingRowOfAnAggregateIsDue) {
    for (const char* aggregate : {"a", "a", "b", "c"}) add(aggregate);
    set_waiting(1, 3600);
    set_waiting(2, -5);
    set_waiting(3, -5);
    store_->execute("update outbox set retry_count = 1 where id = 4");
    EXPECT_THAT(ids(read()), ::testing::ElementsAre(3, 4)) << "without a time a row is due at once";
    set_waiting(1, -1);
    EXPECT_THAT(ids(read()), ::testing::ElementsAre(1, 3, 4));
    EventRead request = everything();
    request.due_limit = 1;
    EXPECT_THAT(ids(read(request)), ::testing::ElementsAre(4)) << "the one that is due for longest";
    request.due_limit = 0;
    EXPECT_TRUE(read(request).empty());
}

TEST_P(EventsConformance, FollowsAnAggregate) {
    for (const char* aggregate : {"a", "b", "a", "a", "a"}) add(aggregate);
    EXPECT_THAT(follow_ids("a"), ::testing::ElementsAre(1, 3, 4, 5));
    EXPECT_THAT(follow_ids("a", 1), ::testing::ElementsAre(3, 4, 5));
    EXPECT_THAT(follow_ids("a", 1, 2), ::testing::ElementsAre(3, 4));
    EXPECT_THAT(follow_ids("a", 5), ::testing::IsEmpty());
    EXPECT_THAT(follow_ids("nobody"), ::testing::IsEmpty());
    store_->execute("update outbox set published = (1 = 1) where id = 3");
    EXPECT_THAT(follow_ids("a", 1), ::testing::ElementsAre(4, 5));
    set_waiting(5, 3600);
    EXPECT_THAT(follow_ids("a", 1), ::testing::ElementsAre(4)) << "ends before one that waits";
    set_waiting(5, -1);
    EXPECT_THAT(follow_ids("a", 1), ::testing::ElementsAre(4, 5)) << "its time has come";
    set_waiting(1, 3600);
    EXPECT_THAT(follow_ids("a", 1), ::testing::IsEmpty())
        << "behind one that waits, although that is before the position";
}

TEST_P(EventsConformance, FollowsSeveralAggregatesEachInOrder) {
    for (const char* aggregate : {"b", "a", "b", "a", "a"}) add(aggregate);
    EventRead request;
    request.shards = all_shards();
    request.follow_limit = 2;
    request.follow = {{"a", std::nullopt}, {"b", "1"}};
    EXPECT_THAT(ids(read(request)), ::testing::ElementsAre(2, 3, 4));
    request.follow_limit = 0;
    EXPECT_TRUE(read(request).empty());
}

TEST_P(EventsConformance, ADeadRowLetsTheOthersPassOrBlocksThem) {
    EventTable blocking = table();
    blocking.block_behind_dead = true;
    const auto strict = outbox(blocking);
    for (const char* aggregate : {"a", "a", "a", "b"}) add(aggregate);
    set_dead(2);
    EXPECT_THAT(ids(read()), ::testing::ElementsAre(1, 3, 4));
    EXPECT_THAT(follow_ids("a"), ::testing::ElementsAre(1, 3));
    EXPECT_THAT(ids(read(everything(), strict.get())), ::testing::ElementsAre(1, 4));
    EXPECT_THAT(follow_ids("a", {}, 100, strict.get()), ::testing::ElementsAre(1));
    set_waiting(3, -5);
    EXPECT_THAT(ids(read(), EventOrigin::due), ::testing::ElementsAre(3));
    EXPECT_THAT(ids(read(everything(), strict.get()), EventOrigin::due), ::testing::IsEmpty());
}

/// What is read at once is bounded by its size too, whatever the rows' number.
TEST_P(EventsConformance, ReadsNoMoreBytesThanAskedFor) {
    const std::string large = "\"" + std::string(998, 'x') + "\"";  // 1000 bytes
    for (int n = 0; n < 6; ++n) add(n % 2 == 0 ? "a" : "b", "T", large);
    EventRead request = everything();
    request.byte_limit = 2500;
    EventBatch batch = must(outbox_->read(request));
    EXPECT_THAT(ids(batch.rows), ::testing::ElementsAre(1, 2, 3)) << "the row that reaches it is the last";
    EXPECT_TRUE(batch.forward_cut);
    EXPECT_FALSE(batch.due_cut);
    request.after = "3";
    request.byte_limit = 1;
    batch = must(outbox_->read(request));
    EXPECT_THAT(ids(batch.rows), ::testing::ElementsAre(4)) << "one always comes";
    EXPECT_TRUE(batch.forward_cut);
    request.byte_limit = 100'000;
    batch = must(outbox_->read(request));
    EXPECT_THAT(ids(batch.rows), ::testing::ElementsAre(4, 5, 6));
    EXPECT_FALSE(batch.forward_cut);
}

TEST_P(EventsConformance, MetadataCountsAmongTheBytes) {
    for (int n = 0; n < 3; ++n) {
        store_->execute(
            "insert into outbox (aggregate_id, event_type, payload, metadata) values ('a', 'T', '1', '{\"m\": \"" +
            std::string(1000, 'x') + "\"}')");
    }
    EventRead request = everything();
    request.byte_limit = 1500;
    EXPECT_THAT(ids(must(outbox_->read(request)).rows), ::testing::ElementsAre(1, 2));
}

/// Tiny entries take many times as much in memory as in the table.
TEST_P(EventsConformance, MetadataCountsAsMuchAsItTakesInMemory) {
    std::string metadata;
    for (int n = 0; n < 1000; ++n) metadata += (n == 0 ? "{\"" : ",\"") + std::to_string(n) + "\":1";
    for (int n = 0; n < 3; ++n) {
        store_->execute("insert into outbox (aggregate_id, event_type, payload, metadata) values ('a', 'T', '1', '" +
                        metadata + "}')");
    }
    EventRead request = everything();
    request.byte_limit = 60'000;  // far more than the texts, less than a thousand pairs of strings
    const EventBatch batch = must(outbox_->read(request));
    EXPECT_THAT(ids(batch.rows), ::testing::ElementsAre(1));
    EXPECT_TRUE(batch.forward_cut);
}

TEST_P(EventsConformance, DueAndFollowedRowsAreBoundedEachByItself) {
    const std::string large = "\"" + std::string(998, 'x') + "\"";
    for (const char* aggregate : {"a", "b", "c", "d", "d", "e", "e", "f"}) add(aggregate, "T", large);
    for (const int id : {1, 2, 3}) set_waiting(id, -10 + id);
    EventRead request = everything();
    request.follow = {{"d", std::nullopt}, {"e", std::nullopt}};
    request.follow_limit = 10;
    request.after = "7";
    request.byte_limit = 2000;
    const EventBatch batch = must(outbox_->read(request));
    EXPECT_THAT(ids(batch.rows, EventOrigin::due), ::testing::ElementsAre(1, 2));
    EXPECT_THAT(ids(batch.rows, EventOrigin::follow), ::testing::ElementsAre(4, 5));
    EXPECT_THAT(ids(batch.rows, EventOrigin::forward), ::testing::ElementsAre(8));
    EXPECT_TRUE(batch.due_cut);
    EXPECT_TRUE(batch.follow_cut);
    EXPECT_FALSE(batch.forward_cut);
}

TEST_P(EventsConformance, ReadingRefusesWhatIsNoId) {
    EventRead request = everything();
    request.after = "one";
    expect_refused(outbox_->read(request), "after");
    request = everything();
    request.up_to = "";
    expect_refused(outbox_->read(request), "up_to");
    request = everything();
    request.follow_limit = 1;
    request.follow = {{"a", "x"}};
    expect_refused(outbox_->read(request), "after");
    request = everything();
    request.limit = -1;
    expect_refused(outbox_->read(request), "limit");
}

}  // namespace deliverd::store::conformance
