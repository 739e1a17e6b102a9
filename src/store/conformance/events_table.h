// The guarantees of store/events.h about tables: foreign ones, counting, cleaning and looking, for every store.
#pragma once

#include "store/conformance/events_fixture.h"

namespace deliverd::store::conformance {

class EventTableConformance : public EventTableFixture {};

TEST_P(EventTableConformance, RelaysATableOfOthers) {
    const auto foreign = debezium();
    add_foreign(7, "order-1");
    const auto rows = read(everything(), foreign.get());
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].row_id, "7");
    EXPECT_EQ(rows[0].sequence, 7);
    EXPECT_EQ(rows[0].age_seconds, 0) << "the table does not say";
    const Message& message = rows[0].message;
    EXPECT_EQ(message.message_id, "7");
    EXPECT_EQ(message.key, "order-1");
    EXPECT_EQ(message.type, "OrderPaid");
    EXPECT_EQ(message.aggregate_type, "order");
    EXPECT_EQ(message.body, "{\"id\": 7}");
    EXPECT_EQ(message.created_at, "");
    EXPECT_TRUE(message.headers.empty());
    EXPECT_EQ(settle_foreign(*foreign, 7, SettleKind::sent), EventSettled::applied);
    EXPECT_EQ(count("shop_events"), "0") << "there is nowhere to mark it";
}

TEST_P(EventTableConformance, KeepsTheFailuresOfATableOfOthers) {
    const auto foreign = debezium();
    add_foreign(1, "a");
    add_foreign(2, "b");
    add_foreign(3, "a");
    EXPECT_EQ(settle_foreign(*foreign, 1, SettleKind::retry), EventSettled::applied);
    EXPECT_THAT(ids(read(everything(), foreign.get())), ::testing::ElementsAre(2)) << "row 3 waits behind row 1";
    EXPECT_THAT(follow_ids("a", {}, 10, foreign.get()), ::testing::IsEmpty());
    EXPECT_EQ(count(GetParam().failures + " where lane = 'shop' and row_id = '1' and aggregate_id = 'a' and"
                                          " retry_count = 1 and last_error = 'BROKER_5XX: no'"),
              "1");
    store_->execute("update " + GetParam().failures + " set next_attempt_at = " + store_->time_expression(-1));
    const auto rows = read(everything(), foreign.get());
    EXPECT_THAT(ids(rows), ::testing::ElementsAre(1, 2));
    EXPECT_EQ(rows.at(0).origin, EventOrigin::due);
    EXPECT_EQ(rows.at(0).message.failures, 1);
    EXPECT_THAT(follow_ids("a", {}, 10, foreign.get()), ::testing::ElementsAre(1, 3));
    EXPECT_EQ(settle_foreign(*foreign, 1, SettleKind::retry, true), EventSettled::applied);
    EXPECT_EQ(settle_foreign(*foreign, 1, SettleKind::sent), EventSettled::applied);
    EXPECT_EQ(count(GetParam().failures), "0") << "it arrived";
    EXPECT_THAT(ids(read(everything(), foreign.get())), ::testing::ElementsAre(2, 3));
    EXPECT_EQ(count("outbox_audit where outbox = 'events' and outbox_id = 1"), "2");
}

TEST_P(EventTableConformance, ADeadRowOfOthersStaysAndBlocksWhereThatIsWanted) {
    const auto foreign = debezium();
    EventTable blocking_table = debezium_table();
    blocking_table.block_behind_dead = true;
    const auto blocking = outbox(blocking_table);
    add_foreign(1, "a");
    add_foreign(2, "a");
    const EventRow row = read(everything(), foreign.get()).at(0);
    EXPECT_EQ(settle_foreign(*foreign, 1, SettleKind::dead), EventSettled::applied);
    EXPECT_EQ(count("shop_events"), "2");
    EXPECT_EQ(count(GetParam().failures + " where dead_at is not null"), "1");
    EXPECT_EQ(settle("r", settlement(row, tend("r", foreign.get()).at(row.shard)), foreign.get()),
              EventSettled::conflict);
    EXPECT_THAT(ids(read(everything(), foreign.get())), ::testing::ElementsAre(2));
    EXPECT_THAT(ids(read(everything(), blocking.get())), ::testing::IsEmpty());
    EXPECT_THAT(follow_ids("a", {}, 10, blocking.get()), ::testing::IsEmpty());
    const RowCounts counts = must(foreign->counts());
    EXPECT_EQ(counts.pending, 1);
    EXPECT_EQ(counts.dead, 1);
    EXPECT_EQ(counts.sent, 0);
}

TEST_P(EventTableConformance, AFailureOfARowThatIsGoneHoldsNobodyUp) {
    const auto foreign = debezium();
    add_foreign(1, "a");
    add_foreign(2, "a");
    EXPECT_EQ(settle_foreign(*foreign, 1, SettleKind::retry), EventSettled::applied);
    store_->execute("delete from shop_events where id = 1");
    EXPECT_THAT(ids(read(everything(), foreign.get())), ::testing::ElementsAre(2));
}

/// Row ids start over in a table that was emptied. What failed under an id before is not about the event that has it
/// now.
TEST_P(EventTableConformance, AnEventWithTheRowIdOfADeadOneIsNotDead) {
    store_->execute(
        "create table reused (id bigint primary key, event_id varchar(100), aggregateid varchar(255) not null,"
        " aggregatetype varchar(255), type varchar(255), payload text)");
    for (const std::string event_id : {"event_id", ""}) {
        SCOPED_TRACE(event_id);
        EventTable foreign = table();
        foreign.lane = "reused by " + event_id;
        foreign.table = "reused";
        foreign.columns = EventColumns::debezium();
        foreign.columns.event_id = event_id;
        const auto reused = outbox(foreign);
        const auto settle_first = [&](SettleKind kind) {
            const EventRow row = read(everything(), reused.get()).at(0);
            return settle("r", settlement(row, tend("r", reused.get()).at(row.shard), kind), reused.get());
        };
        store_->execute("insert into reused (id, event_id, aggregateid, payload) values (1, 'e-1', 'a', '{}')");
        EXPECT_EQ(settle_first(SettleKind::dead), EventSettled::applied);
        EXPECT_THAT(read(everything(), reused.get()), ::testing::IsEmpty());

        store_->execute("delete from reused");
        const std::string aggregate = event_id.empty() ? "b" : "a";
        store_->execute("insert into reused (id, event_id, aggregateid, payload) values (1, 'e-2', '" + aggregate +
                        "', '{}')");
        const auto rows = read(everything(), reused.get());
        ASSERT_THAT(ids(rows), ::testing::ElementsAre(1));
        EXPECT_EQ(rows[0].message.failures, 0);
        EXPECT_EQ(must(reused->counts()).dead, 0);
        EXPECT_EQ(settle_first(SettleKind::retry), EventSettled::applied);
        const std::string line = GetParam().failures + " where lane = '" + foreign.lane + "'";
        EXPECT_EQ(count(line + " and retry_count = 1 and dead_at is null and aggregate_id = '" + aggregate + "'"), "1");
        store_->execute("update " + GetParam().failures + " set next_attempt_at = null where lane = '" + foreign.lane +
                        "'");
        EXPECT_EQ(settle_first(SettleKind::sent), EventSettled::applied);
        EXPECT_EQ(count(line), "0");
    }
}

TEST_P(EventTableConformance, ColumnsMayHaveOtherNames) {
    store_->execute(
        "create table journal (no bigint primary key, subject varchar(100), kind varchar(100), body text,"
        " done boolean not null default (1 = 0), tries int not null default 0, again timestamp, why text, gone "
        "timestamp)");
    EventTable foreign = table();
    foreign.lane = "journal";
    foreign.table = "journal";
    foreign.columns =
        EventColumns{"no", "subject", "", "kind", "body", "", "", "", "done", "", "tries", "again", "why", "gone"};
    const auto journal = outbox(foreign);
    store_->execute("insert into journal (no, subject, kind, body) values (5, 's', 'k', 'plain text')");
    const auto rows = read(everything(), journal.get());
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].message.body, "plain text");
    EXPECT_EQ(rows[0].message.message_id, "5");
    EXPECT_EQ(settle_foreign(*journal, 5, SettleKind::retry, true), EventSettled::applied);
    EXPECT_EQ(store_->value("select tries from journal"), "1");
    EXPECT_EQ(settle_foreign(*journal, 5, SettleKind::sent), EventSettled::applied);
    EXPECT_EQ(count("journal where done"), "1");
}

TEST_P(EventTableConformance, WithoutAnAggregateARowIsOfTheEmptyOne) {
    const EventTable journal = journal_table();
    store_->execute("insert into journal (no, subject) values (1, null), (2, ''), (3, 's'), (4, null)");
    expect_null_is_the_empty_aggregate(journal);
    store_->execute("update journal set gone = " + store_->time_expression(0) + " where no = 1");
    expect_behind_a_dead_one(journal);
}

TEST_P(EventTableConformance, WithoutAnAggregateARowOfOthersFailsInItsOrder) {
    store_->execute(
        "create table shop_events (id bigint primary key, aggregatetype varchar(255), aggregateid varchar(255), type"
        " varchar(255), payload text)");
    store_->execute("insert into shop_events (id, aggregateid) values (1, null), (2, ''), (3, 's'), (4, null)");
    expect_null_is_the_empty_aggregate(debezium_table());
    EXPECT_EQ(count(GetParam().failures + " where aggregate_id = '' and retry_count = 2"), "1");
    store_->execute("update " + GetParam().failures + " set dead_at = " + store_->time_expression(0));
    expect_behind_a_dead_one(debezium_table());
}

TEST_P(EventTableConformance, WhatElseIsNullIsEmpty) {
    const auto journal = outbox(journal_table());
    store_->execute("insert into journal (no) values (5)");
    const auto rows = read(everything(), journal.get());
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].age_seconds, 0);
    const Message& message = rows[0].message;
    EXPECT_EQ(message.key, "");
    EXPECT_EQ(message.type, "");
    EXPECT_EQ(message.body, "");
    EXPECT_EQ(message.message_id, "5") << "the row's own, where it has none";
    EXPECT_EQ(message.created_at, "");
    EXPECT_TRUE(message.headers.empty());
    EXPECT_EQ(message.failures, 0);
    EXPECT_EQ(must(journal->lag_seconds()), 0);
    EXPECT_EQ(settle_foreign(*journal, 5, SettleKind::retry, true), EventSettled::applied);
    EXPECT_EQ(settle_foreign(*journal, 5, SettleKind::dead), EventSettled::applied);
    EXPECT_EQ(count("journal where gone is not null and tries = 2 and why = 'BROKER_5XX: no'"), "1");
}

TEST_P(EventTableConformance, ARowThatIsNotMarkedPublishedIsUnpublished) {
    const auto journal = outbox(journal_table());
    store_->execute("insert into journal (no, subject) values (1, 'a'), (2, 'b')");
    store_->execute("insert into journal (no, subject, done) values (3, 'c', (1 = 1))");
    EXPECT_THAT(ids(read(everything(), journal.get())), ::testing::ElementsAre(1, 2));
    EXPECT_EQ(must(journal->counts()).pending, 2);
    EXPECT_EQ(must(journal->counts()).sent, 1);
    EXPECT_EQ(settle_foreign(*journal, 1, SettleKind::sent), EventSettled::applied);
    EXPECT_EQ(count("journal where done and done_at is not null"), "1");
    store_->execute("update journal set done_at = " + store_->time_expression(-60) + " where done_at is not null");
    EXPECT_EQ(must(journal->remove_published(std::chrono::seconds(30), 10)), 1);
    EXPECT_EQ(settle_foreign(*journal, 2, SettleKind::retry, true), EventSettled::applied);
    EXPECT_THAT(ids(read(everything(), journal.get()), EventOrigin::due), ::testing::ElementsAre(2));
    EXPECT_EQ(settle_foreign(*journal, 2, SettleKind::sent), EventSettled::applied);
}

TEST_P(EventTableConformance, RefusesTablesThatCannotBe) {
    const auto refused = [&](const std::function<void(EventTable&)>& change, const std::string& mentions) {
        EventTable bad = table();
        change(bad);
        expect_refused(store_->database().event_outbox(bad), mentions);
    };
    refused([](EventTable& bad) { bad.lane = ""; }, "lane");
    refused([](EventTable& bad) { bad.table = ""; }, "table");
    refused([](EventTable& bad) { bad.shards = 0; }, "shards");
    refused([](EventTable& bad) { bad.columns.id = ""; }, "columns.id");
    refused([](EventTable& bad) { bad.columns.last_error = ""; }, "or none");
}

TEST_P(EventTableConformance, LagIsTheAgeOfTheOldestThatDoesNotWait) {
    EXPECT_EQ(must(outbox_->lag_seconds()), 0);
    for (int n = 1; n <= 4; ++n) {
        add("a" + std::to_string(n));
        store_->execute("update outbox set created_at = " + store_->time_expression(-1000 + 100 * n) +
                        " where id = " + std::to_string(n));
    }
    store_->execute("update outbox set published = (1 = 1) where id = 1");
    set_waiting(2, 3600);
    const double lag = must(outbox_->lag_seconds());
    EXPECT_GE(lag, 699);
    EXPECT_LT(lag, 790);
    store_->execute("update outbox set published = (1 = 1)");
    EXPECT_EQ(must(outbox_->lag_seconds()), 0);
    add("b");
    store_->execute("update outbox set created_at = " + store_->time_expression(-50) + " where not published");
    EXPECT_GE(must(outbox_->lag_seconds()), 49);
}

TEST_P(EventTableConformance, CountsByState) {
    for (int n = 1; n <= 6; ++n) add("a" + std::to_string(n));
    store_->execute("update outbox set published = (1 = 1) where id in (1, 2)");
    set_waiting(3, 60);
    set_dead(4);
    const RowCounts counts = must(outbox_->counts());
    EXPECT_EQ(counts.pending, 3);
    EXPECT_EQ(counts.sent, 2);
    EXPECT_EQ(counts.dead, 1);
}

TEST_P(EventTableConformance, RemovesWhatWasPublishedLongAgo) {
    for (int n = 1; n <= 8; ++n) add("a" + std::to_string(n));
    store_->execute("update outbox set published = (1 = 1), published_at = " + store_->time_expression(-1000) +
                    " where id in (1, 2, 4, 7)");
    store_->execute("update outbox set published = (1 = 1), published_at = " + store_->time_expression(-10) +
                    " where id = 8");
    set_dead(3);
    EXPECT_EQ(must(outbox_->remove_published(std::chrono::seconds(500), 3)), 3);
    EXPECT_EQ(must(outbox_->remove_published(std::chrono::seconds(500), 3)), 1);
    EXPECT_EQ(must(outbox_->remove_published(std::chrono::seconds(500), 3)), 0);
    EXPECT_EQ(count("outbox"), "4") << "open, dead and young ones stay";
    EXPECT_EQ(must(outbox_->remove_published(std::chrono::seconds(1), 3)), 1);
    expect_refused(outbox_->remove_published(std::chrono::seconds(-1), 3), "age");
    expect_refused(outbox_->remove_published(std::chrono::seconds(1), 0), "limit");
}

TEST_P(EventTableConformance, RemovesNothingWhereNothingIsMarked) {
    const auto foreign = debezium();
    add_foreign(1, "a");
    EXPECT_EQ(must(foreign->remove_published(std::chrono::seconds(0), 100)), 0);
    EXPECT_EQ(count("shop_events"), "1");
}

TEST_P(EventTableConformance, SaysWhatIsWrongWithATable) {
    EXPECT_TRUE(wrong(must(outbox_->inspect())).empty());
    EXPECT_TRUE(wrong(must(debezium()->inspect())).empty());
    EventTable missing = table();
    missing.table = "nowhere";
    EXPECT_THAT(wrong(must(outbox(missing)->inspect())), ::testing::ElementsAre(::testing::HasSubstr("nowhere")));
    EventTable other = table();
    other.table = "shop_events";
    EXPECT_THAT(wrong(must(outbox(other)->inspect())),
                ::testing::ElementsAre(
                    ::testing::AllOf(::testing::HasSubstr("aggregate_id"), ::testing::HasSubstr("metadata"))));
}

TEST_P(EventTableConformance, Answers) {
    must(outbox_->ping(std::chrono::seconds(5)));
    must(outbox_->set_asleep("r", true));
    must(outbox_->set_asleep("r", false));
}

}  // namespace deliverd::store::conformance
