// The guarantees of store/dead_letters.h about rows of event tables, for every store.
#pragma once

#include "store/conformance/dead_letters_lanes.h"

namespace deliverd::store::conformance {

class EventLettersConformance : public LettersFixture {
protected:
    static EventTable blocking(EventTable table) {
        table.block_behind_dead = true;
        return table;
    }
    /// Gives the row up, as a relay that read it would.
    void bury(EventOutbox& outbox, std::int64_t id) {
        ASSERT_EQ(settle_foreign(outbox, id, SettleKind::dead), EventSettled::applied);
    }
    /// What a relay finds whose position is past everything.
    std::vector<std::int64_t> at_the_end(EventOutbox& outbox) {
        EventRead request = everything();
        request.after = "1000";
        return ids(read(request, &outbox));
    }
    /// The table's ids count from 1 again: `insert` adds a row with the id of an earlier one.
    void start_over(const std::string& table, const std::string& insert) {
        store_->execute("delete from " + table);
        store_->execute("delete from " + GetParam().failures);
        store_->execute(insert);
    }
    /// Of two letters of a topic the one that is not `id`.
    Letter the_other(const std::string& topic, const std::string& id) {
        const auto letters = of_topic(topic);
        EXPECT_EQ(letters.size(), 2U);
        for (const Letter& each : letters) {
            if (each.id != id) return each;
        }
        ADD_FAILURE() << "there is no other letter";
        return {};
    }
    /// The row comes back as the first of its aggregate, and what was behind it only after it was sent.
    void expect_in_order(EventOutbox& outbox, const std::string& aggregate, std::vector<std::int64_t> order) {
        EventRead near_the_end = everything();
        near_the_end.after = std::to_string(order.at(0));
        const auto found = read(near_the_end, &outbox);
        ASSERT_EQ(found.size(), 1U) << "a position past it finds it, and nothing of its aggregate before it";
        EXPECT_EQ(found[0].sequence, order[0]);
        EXPECT_EQ(found[0].origin, EventOrigin::due) << "at once";
        EXPECT_EQ(found[0].message.failures, 1);
        EXPECT_EQ(follow_ids(aggregate, {}, 10, &outbox), order);
        ASSERT_EQ(settle("r", settlement(found[0], tend("r", &outbox).at(found[0].shard)), &outbox),
                  EventSettled::applied);
        order.erase(order.begin());
        EXPECT_EQ(ids(read(everything(), &outbox)), order);
    }
};

TEST_P(EventLettersConformance, AnEventThatIsGivenUpLeavesALetter) {
    store_->execute(
        "insert into outbox (aggregate_id, event_type, payload, metadata) values ('order-1', 'OrderCreated',"
        " '{\"total\": 42}', '{\"trace\": \"grüße\", \"tries\": 3}')");
    bury(*outbox_, 1);
    const Letter letter = only_letter("events");
    EXPECT_EQ(letter.status, LetterStatus::pending);
    EXPECT_EQ(letter.source, "lane:events");
    EXPECT_EQ(letter.provenance.error_message, "BROKER_5XX: no");
    EXPECT_EQ(letter.provenance.error_class, "BROKER_5XX");
    EXPECT_EQ(letter.provenance.producer, "r");
    EXPECT_EQ(letter.payload, "{\"total\": 42}");
    ASSERT_TRUE(letter.lane_row);
    EXPECT_EQ(letter.lane_row->lane, "events");
    EXPECT_EQ(letter.lane_row->outbox, "events");
    EXPECT_EQ(letter.lane_row->row_id, "1");
    const Record record = detail(letter.id).record;
    EXPECT_EQ(record.key, "order-1");
    EXPECT_EQ(record.value, "{\"total\": 42}");
    EXPECT_THAT(record.headers,
                ::testing::UnorderedElementsAre(RecordHeader{"trace", "grüße"}, RecordHeader{"tries", "3"}));
}

TEST_P(EventLettersConformance, LeavesALetterOnlyWithTheSettlement) {
    add("a");
    const EventRow row = only(everything());
    const auto lease = tend("r").at(row.shard);
    EXPECT_EQ(settle("s", settlement(row, lease, SettleKind::dead)), EventSettled::fenced);
    EventSettlement stale = settlement(row, lease, SettleKind::dead);
    stale.settlement.failures_before = 7;
    EXPECT_EQ(settle("r", stale), EventSettled::conflict);
    EXPECT_EQ(settle("r", settlement(row, lease, SettleKind::retry)), EventSettled::applied);
    EXPECT_TRUE(of_topic("events").empty());
}

TEST_P(EventLettersConformance, AnEventGoesBackInOrder) {
    const auto blocked = outbox(blocking(table()));
    for (int n = 0; n < 3; ++n) add("a");
    bury(*blocked, 1);
    EXPECT_TRUE(read(everything(), blocked.get()).empty());
    const Letter dead = only_letter("events");
    begin(dead.id);
    ASSERT_EQ(give_back(dead.id), "");
    EXPECT_EQ(letter(dead.id).status, LetterStatus::resolved);
    EXPECT_THAT(at_the_end(*blocked), ::testing::ElementsAre(1));
    expect_in_order(*blocked, "a", {1, 2, 3});
}

TEST_P(EventLettersConformance, AnEventGoesBackBeforeLaterOnesThatWereNotSentYet) {
    for (int n = 0; n < 2; ++n) add("a");
    bury(*outbox_, 1);
    EXPECT_THAT(ids(read()), ::testing::ElementsAre(2)) << "on_dead: continue";
    const Letter dead = only_letter("events");
    begin(dead.id);
    ASSERT_EQ(give_back(dead.id), "");
    expect_in_order(*outbox_, "a", {1, 2});
}

TEST_P(EventLettersConformance, AnEventThatDiesAgainKeepsItsLetter) {
    add("a");
    bury(*outbox_, 1);
    const Letter dead = only_letter("events");
    begin(dead.id);
    ASSERT_EQ(give_back(dead.id), "");
    bury(*outbox_, 1);
    const Letter again = only_letter("events");
    EXPECT_EQ(again.id, dead.id);
    EXPECT_EQ(again.status, LetterStatus::pending);
    EXPECT_EQ(again.retry_count, 1);
    begin(dead.id);
    EXPECT_EQ(give_back(dead.id), "");
    EXPECT_EQ(letter(dead.id).retry_count, 2);
    exhaust(dead.id);
    bury(*outbox_, 1);
    EXPECT_EQ(letter(dead.id).status, LetterStatus::dead) << "after the last of its retries";
    EXPECT_FALSE(letter(dead.id).in_doubt);
}

TEST_P(EventLettersConformance, WhatWasSentMeanwhileDoesNotGoBack) {
    add("a");
    bury(*outbox_, 1);
    const Letter dead = only_letter("events");
    begin(dead.id);
    must(must(store_->database().events(std::nullopt))->mark_published(1));
    EXPECT_NE(give_back(dead.id), "");
    EXPECT_EQ(letter(dead.id).status, LetterStatus::retrying);
    EXPECT_TRUE(read().empty());
}

TEST_P(EventLettersConformance, ARowOfDebeziumsTableGoesBackInOrder) {
    debezium();
    const auto foreign = outbox(blocking(debezium_table()));
    for (int n = 1; n <= 3; ++n) add_foreign(n, "a");
    bury(*foreign, 1);
    const Letter dead = only_letter("shop");
    EXPECT_EQ(dead.source, "lane:shop");
    EXPECT_EQ(dead.payload, "{\"id\": 1}");
    EXPECT_EQ(detail(dead.id).record.key, "a");
    EXPECT_TRUE(detail(dead.id).record.headers.empty());
    begin(dead.id);
    ASSERT_EQ(give_back(dead.id), "");
    expect_in_order(*foreign, "a", {1, 2, 3});
    EXPECT_EQ(count(GetParam().failures), "0") << "it arrived";
}

TEST_P(EventLettersConformance, ARowThatIsGoneFromDebeziumsTableDoesNotGoBack) {
    const auto foreign = debezium();
    add_foreign(1, "a");
    bury(*foreign, 1);
    const Letter dead = only_letter("shop");
    store_->execute("delete from shop_events");
    begin(dead.id);
    EXPECT_NE(give_back(dead.id), "");
    EXPECT_EQ(letter(dead.id).status, LetterStatus::retrying);
}

TEST_P(EventLettersConformance, ARowOfAMappedTableGoesBackInOrder) {
    store_->execute(
        "create table \"Their Events\" (\"No\" bigint primary key, who varchar(99) not null, what varchar(99) not null,"
        " body text not null, tries bigint not null default 0, \"when\" varchar(99), why text, given_up varchar(99))");
    EventTable mapped = blocking(table());
    mapped.lane = "theirs";
    mapped.table = "Their Events";
    mapped.columns = {.id = "No",
                      .aggregate_id = "who",
                      .event_type = "what",
                      .payload = "body",
                      .event_id = "",
                      .metadata = "",
                      .created_at = "",
                      .published = "",
                      .published_at = "",
                      .retry_count = "tries",
                      .next_attempt_at = "when",
                      .last_error = "why",
                      .dead_at = "given_up"};
    if (GetParam().store.name != "SQLite") {
        store_->execute(
            "alter table \"Their Events\" alter column \"when\" type timestamptz using null,"
            " alter column given_up type timestamptz using null");
    }
    const auto theirs = outbox(mapped);
    for (int n = 1; n <= 2; ++n) {
        store_->execute("insert into \"Their Events\" (\"No\", who, what, body) values (" + std::to_string(n) +
                        ", 'a', 'T', 'not JSON')");
    }
    bury(*theirs, 1);
    const Letter dead = only_letter("theirs");
    EXPECT_FALSE(dead.payload);
    EXPECT_EQ(detail(dead.id).record.value, "not JSON");
    begin(dead.id);
    ASSERT_EQ(give_back(dead.id), "");
    expect_in_order(*theirs, "a", {1, 2});
}

TEST_P(EventLettersConformance, LanesWithRowsOfTheSameIdDoNotMeet) {
    const auto foreign = debezium();
    add("a");
    add_foreign(1, "a");
    bury(*outbox_, 1);
    bury(*foreign, 1);
    const Letter own = only_letter("events");
    EXPECT_NE(own.id, only_letter("shop").id);
    begin(own.id);
    EXPECT_EQ(give_back(own.id), "");
    EXPECT_EQ(only_letter("shop").status, LetterStatus::pending);
    EXPECT_TRUE(read(everything(), foreign.get()).empty());
}

TEST_P(EventLettersConformance, ADeadLetterThatIsRevivedReleasesItsAggregate) {
    const auto blocked = outbox(blocking(table()));
    for (int n = 0; n < 2; ++n) add("a");
    bury(*blocked, 1);
    const std::string id = only_letter("events").id;
    for (int n = 0; n < 3; ++n) {
        ASSERT_EQ(begin(id).verdict, RetryVerdict::begun);
        ASSERT_EQ(give_back(id), "");
        bury(*blocked, 1);
    }
    ASSERT_EQ(letter(id).status, LetterStatus::dead);
    ASSERT_EQ(begin(id).verdict, RetryVerdict::finished);
    EXPECT_TRUE(read(everything(), blocked.get()).empty()) << "2 waits behind it";
    must(letters_->revive(id, "ann"));
    ASSERT_EQ(begin(id).verdict, RetryVerdict::begun);
    ASSERT_EQ(give_back(id), "");
    expect_in_order(*blocked, "a", {1, 2});
}

// --- row ids that start over ---------------------------------------------------------------------------------------

TEST_P(EventLettersConformance, ALetterOutlivesAnotherEventWithItsRowId) {
    add("a");
    bury(*outbox_, 1);
    const Letter first = only_letter("events");
    start_over("outbox", "insert into outbox (id, aggregate_id, event_type, payload) values (1, 'a', 'T', '{}')");
    bury(*outbox_, 1);
    const Letter second = the_other("events", first.id);
    EXPECT_EQ(letter(first.id).status, LetterStatus::pending);
    EXPECT_EQ(letter(first.id).payload, first.payload);
    EXPECT_EQ(letter(first.id).lane_row->row_id, "") << "the row is not its own any more";
    EXPECT_THAT(trail(first.id), ::testing::ElementsAre("row_reused PENDING>PENDING"));
    const RetryClaim refused = begin(first.id);
    EXPECT_EQ(refused.verdict, RetryVerdict::refused) << "it would send the other event";
    EXPECT_NE(refused.reason.find("row"), std::string::npos) << refused.reason;
    begin(second.id);
    EXPECT_EQ(give_back(second.id), "");
    EXPECT_EQ(letter(first.id).status, LetterStatus::pending);
    EXPECT_THAT(ids(read()), ::testing::ElementsAre(1));
}

TEST_P(EventLettersConformance, AnEventWithTheRowIdOfOneThatWentBackHasItsOwnRetries) {
    add("a");
    bury(*outbox_, 1);
    const Letter first = only_letter("events");
    begin(first.id);
    ASSERT_EQ(give_back(first.id), "");
    exhaust(first.id);
    start_over("outbox", "insert into outbox (id, aggregate_id, event_type, payload) values (1, 'a', 'T', '{}')");
    bury(*outbox_, 1);
    const Letter second = the_other("events", first.id);
    EXPECT_EQ(second.status, LetterStatus::pending);
    EXPECT_EQ(second.retry_count, 0);
    EXPECT_EQ(letter(first.id).status, LetterStatus::resolved);
}

TEST_P(EventLettersConformance, AnEventThatSomebodyRevivedKeepsItsLetter) {
    add("a");
    bury(*outbox_, 1);
    const std::string id = only_letter("events").id;
    store_->execute("update outbox set dead_at = null, retry_count = 0");
    bury(*outbox_, 1);
    EXPECT_EQ(only_letter("events").id, id) << "the event id says that it is the same";
    EXPECT_TRUE(trail(id).empty());
}

TEST_P(EventLettersConformance, WithoutEventIdsAnUnresolvedLetterIsNotOverwritten) {
    const auto foreign = debezium();
    for (int round = 1; round <= 2; ++round) {
        start_over("shop_events", "insert into shop_events values (1, 'order', 'a', 'Type" + std::to_string(round) +
                                      "', '{\"id\": 1}')");
        bury(*foreign, 1);
    }
    EXPECT_EQ(of_topic("shop").size(), 2U) << "they differ in what a letter does not hold";
}

}  // namespace deliverd::store::conformance
