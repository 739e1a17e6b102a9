#include "relay/order_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace deliverd::relay {
namespace {

using store::EventOrigin;
using store::EventRow;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using TakeResult = OrderBook::TakeResult;

class OrderBookTest : public ::testing::Test {
protected:
    static EventRow row(std::int64_t id, const std::string& aggregate, EventOrigin origin = EventOrigin::forward,
                        std::int32_t failures = 0) {
        EventRow row;
        row.row_id = std::to_string(id);
        row.sequence = id;
        row.shard = aggregate == "other" ? 1 : 0;
        row.origin = origin;
        row.message.id = id;
        row.message.key = aggregate;
        row.message.body = "body";
        row.message.failures = failures;
        return row;
    }
    TakeResult take(EventRow event, bool trusted = true) {
        const store::ShardLease lease{event.shard, 7};
        return book_.take(event, lease, trusted);
    }
    /// A look that brings these.
    void look(std::vector<EventRow> rows) {
        follows_ = book_.begin_look(10);
        for (EventRow& event : rows) take(std::move(event));
        book_.end_look(true);
    }
    /// Everything that may go now, now at the sink.
    std::vector<std::int64_t> send() {
        std::vector<std::int64_t> ids;
        while (Held* held = book_.send_next(Instant{})) {
            ids.push_back(held->row.message.id);
            at_sink_[ids.back()] = &held->row.message;
        }
        return ids;
    }
    Held& ended(std::int64_t id) { return *book_.at_sink(*at_sink_.at(id)); }
    void deliver(std::int64_t id) { book_.delivered(ended(id)); }
    void fail(std::int64_t id) { book_.failed(ended(id)); }
    void record(std::int64_t id, Recorded recorded) {
        Held* held = book_.settling(std::to_string(id), {id >= 100 ? 1 : 0, 7});
        ASSERT_NE(held, nullptr);
        book_.settled(*held, recorded);
    }
    std::vector<std::string> followed() {
        std::vector<std::string> names;
        for (const store::EventFollow& follow : follows_) {
            names.push_back(follow.aggregate_id + ">" + follow.after.value_or(""));
        }
        return names;
    }

    OrderBook book_{{.of_one_aggregate = 4, .follow_page = 2, .gaps = 3, .aside = 1}};
    std::map<std::int64_t, const Message*> at_sink_;
    std::vector<store::EventFollow> follows_;
};

TEST_F(OrderBookTest, EventsOfAnAggregateGoOneAtATimeInOrder) {
    look({row(1, "a"), row(2, "b"), row(5, "a"), row(3, "a")});
    EXPECT_THAT(send(), ElementsAre(1, 2));
    EXPECT_THAT(send(), IsEmpty());
    deliver(1);
    EXPECT_THAT(send(), ElementsAre(3)) << "before 1 is recorded";
    deliver(3);
    EXPECT_THAT(send(), ElementsAre(5));
}

TEST_F(OrderBookTest, HeadersCountAmongTheBytesInHand) {
    EventRow event = row(1, "a");
    for (int i = 0; i < 1000; ++i) event.message.headers.emplace_back(std::to_string(i), "1");
    look({std::move(event)});
    EXPECT_GE(book_.bytes(), 1000 * 2 * sizeof(std::string));
    send();
    deliver(1);
    EXPECT_EQ(book_.bytes(), 0U);
    EXPECT_EQ(book_.settling("1", {0, 7})->row.message.headers.capacity(), 0U) << "counted no more, kept no more";
}

TEST_F(OrderBookTest, RowsInHandAreRecognised) {
    look({row(1, "a"), row(2, "a")});
    EXPECT_THAT(send(), ElementsAre(1));
    look({row(1, "a"), row(2, "a")});
    deliver(1);
    look({row(1, "a"), row(2, "a")});
    EXPECT_EQ(book_.rows(), 2U);
    EXPECT_THAT(send(), ElementsAre(2));
}

TEST_F(OrderBookTest, ARowRecordedDuringALookIsKnownUntilThatLookEnds) {
    look({row(1, "a")});
    send();
    deliver(1);
    (void)book_.begin_look(10);
    record(1, Recorded::ended);
    EXPECT_EQ(take(row(1, "a")), TakeResult::known) << "the look saw the table as it was before";
    book_.end_look(true);
    EXPECT_EQ(book_.rows(), 0U);
    EXPECT_EQ(book_.aggregates(), 0U);
}

TEST_F(OrderBookTest, NothingFollowsAFailureUntilItIsRecordedAndTheLookHasEnded) {
    look({row(1, "a"), row(2, "a")});
    send();
    fail(1);
    EXPECT_THAT(send(), IsEmpty());
    EXPECT_EQ(book_.rows(), 1U) << "the second was dropped";
    (void)book_.begin_look(10);
    EXPECT_EQ(take(row(2, "a")), TakeResult::ignored);
    record(1, Recorded::waits);
    EXPECT_EQ(take(row(2, "a")), TakeResult::ignored) << "this look began before the retry was recorded";
    book_.end_look(true);
    EXPECT_THAT(send(), IsEmpty());
    EXPECT_EQ(book_.aggregates(), 0U) << "the database keeps it back";
}

TEST_F(OrderBookTest, ALookFollowsAtMostTheGivenNumber) {
    (void)book_.begin_look(10);
    take(row(1, "a"), false);
    take(row(2, "b"), false);
    book_.end_look(true);
    for (const auto* name : {"a>", "b>"}) {
        follows_ = book_.begin_look(1);
        EXPECT_THAT(followed(), ElementsAre(name));
        book_.end_look(true);
    }
}

TEST_F(OrderBookTest, AShardIsAtRestOnceWhatWasNotTriedIsPutBack) {
    look({row(1, "a")});
    EXPECT_THAT(send(), ElementsAre(1));
    EXPECT_FALSE(book_.at_rest(0));
    book_.put_back(ended(1));
    EXPECT_TRUE(book_.at_rest(0));
    EXPECT_THAT(send(), ElementsAre(1));
}

TEST_F(OrderBookTest, AShardThatWasGivenBackAndRegainedHasNothingSetAside) {
    look({row(1, "a")});
    EXPECT_THAT(send(), ElementsAre(1));
    book_.set_aside(ended(1));
    book_.drop_queued(0);
    EXPECT_EQ(book_.aggregates(), 0U);
    look({row(1, "a")});
    EXPECT_THAT(send(), ElementsAre(1));
}

TEST_F(OrderBookTest, WhatWaitedBehindARetryIsFollowedPageByPage) {
    look({row(1, "a", EventOrigin::due, 1), row(9, "a")});
    EXPECT_THAT(send(), ElementsAre(1));
    look({row(9, "a")});
    EXPECT_THAT(followed(), IsEmpty()) << "it may fail again";
    deliver(1);
    EXPECT_THAT(send(), IsEmpty()) << "9 was not taken: 2 to 8 may lie behind the position";
    record(1, Recorded::ended);
    look({row(2, "a", EventOrigin::follow), row(3, "a", EventOrigin::follow), row(9, "a")});
    EXPECT_THAT(followed(), ElementsAre("a>1"));
    EXPECT_THAT(send(), ElementsAre(2));
    look({row(9, "a", EventOrigin::follow), row(9, "a")});
    EXPECT_THAT(followed(), ElementsAre("a>3"));
    look({row(10, "a")});
    deliver(2);
    EXPECT_THAT(send(), ElementsAre(3));
    deliver(3);
    EXPECT_THAT(send(), ElementsAre(9));
    deliver(9);
    EXPECT_THAT(send(), ElementsAre(10)) << "the page was not full: the position brings the rest";
}

TEST_F(OrderBookTest, AfterADeadRowTheRestIsFollowedFromTheBeginning) {
    look({row(1, "a"), row(2, "a")});
    send();
    fail(1);
    record(1, Recorded::passes);
    look({row(3, "a")});
    EXPECT_THAT(followed(), ElementsAre("a>"));
    EXPECT_EQ(book_.rows(), 0U);
}

TEST_F(OrderBookTest, BehindADeadRowThatBlocksNothingIsAskedFor) {
    look({row(1, "a"), row(2, "a")});
    send();
    fail(1);
    record(1, Recorded::blocks);
    look({});
    EXPECT_THAT(followed(), IsEmpty());
}

TEST_F(OrderBookTest, IfDueRowsMayBeMissingAnUnknownAggregateIsFollowed) {
    look({row(1, "a")});
    (void)book_.begin_look(10);
    EXPECT_EQ(take(row(2, "a"), false), TakeResult::taken) << "nothing of it lies behind";
    EXPECT_EQ(take(row(3, "b"), false), TakeResult::ignored);
    book_.end_look(true);
    look({});
    EXPECT_THAT(followed(), ElementsAre("b>"));
}

TEST_F(OrderBookTest, OneAggregateTakesALimitedPartOfTheHand) {
    look({row(1, "a"), row(2, "a"), row(3, "a"), row(4, "a"), row(5, "a"), row(6, "a"), row(7, "b")});
    EXPECT_EQ(book_.rows(), 5U);
    EXPECT_FALSE(book_.follow_wanted()) << "there is enough in hand";
    EXPECT_THAT(send(), ElementsAre(1, 7));
    for (std::int64_t id = 1; id <= 3; ++id) {
        deliver(id);
        send();
    }
    look({row(5, "a", EventOrigin::follow), row(6, "a", EventOrigin::follow)});
    EXPECT_THAT(followed(), ElementsAre("a>4"));
    deliver(4);
    EXPECT_THAT(send(), ElementsAre(5));
}

TEST_F(OrderBookTest, ReportsThatTooManyAggregatesHaveGaps) {
    (void)book_.begin_look(10);
    for (const char* aggregate : {"a", "b", "c"}) {
        EXPECT_FALSE(book_.full());
        take(row(aggregate[0], aggregate), false);
    }
    EXPECT_TRUE(book_.full());
    book_.end_look(true);
    look({});  // all three pages are empty
    EXPECT_FALSE(book_.full());
    EXPECT_EQ(book_.aggregates(), 0U);
}

TEST_F(OrderBookTest, ALostShardIsForgottenAndItsOutcomesAreIgnored) {
    look({row(1, "a"), row(2, "a"), row(100, "other")});
    EXPECT_THAT(send(), ElementsAre(1, 100));
    book_.drop_shard(0);
    EXPECT_EQ(book_.at_sink(), 2U) << "the sink still has its message";
    EXPECT_FALSE(book_.at_rest(1));
    look({row(1, "a")});
    EXPECT_THAT(send(), ElementsAre(1)) << "the shard came back: the row is read and sent anew";
    deliver(100);
    record(100, Recorded::ended);
    EXPECT_TRUE(book_.at_rest(1));
}

TEST_F(OrderBookTest, OutcomesOfALostShardEndWithoutTrace) {
    look({row(1, "a")});
    send();
    book_.drop_shard(0);
    EXPECT_EQ(book_.at_sink(*at_sink_.at(1)), nullptr);
    EXPECT_EQ(book_.rows(), 0U);
    EXPECT_EQ(book_.at_sink(), 0U);
    EXPECT_EQ(book_.bytes(), 0U);
}

TEST_F(OrderBookTest, AnEventThatWasNotTriedStaysFirstInItsAggregateWhichGoesBehindTheOthers) {
    look({row(1, "a"), row(2, "a"), row(3, "b")});
    Held* first = book_.send_next(Instant{});
    EXPECT_EQ(first->row.message.id, 1);
    book_.put_back(*book_.at_sink(first->row.message));
    EXPECT_THAT(send(), ElementsAre(3, 1));
    deliver(1);
    EXPECT_THAT(send(), ElementsAre(2));
}

TEST_F(OrderBookTest, WhatIsSetAsideKeepsItsFirstRowAndFollowsTheRest) {
    look({row(1, "a"), row(2, "a"), row(3, "b")});
    EXPECT_THAT(send(), ElementsAre(1, 3));
    book_.set_aside(ended(1));
    EXPECT_EQ(book_.rows(), 2U) << "what was behind it is dropped";
    EXPECT_THAT(send(), IsEmpty());
    look({row(2, "a"), row(4, "a")});
    EXPECT_EQ(book_.rows(), 2U) << "and ignored";
    book_.resume(0);
    EXPECT_THAT(send(), ElementsAre(1));
    deliver(1);
    look({row(2, "a", EventOrigin::follow), row(4, "a", EventOrigin::follow)});
    EXPECT_THAT(followed(), ElementsAre("a>1"));
    EXPECT_THAT(send(), ElementsAre(2));
}

TEST_F(OrderBookTest, WhatIsSetAsideKeepsAnEarlierRowThatCameInTheMeantime) {
    look({row(5, "a"), row(6, "a")});
    EXPECT_THAT(send(), ElementsAre(5));
    look({row(4, "a", EventOrigin::due, 1)});
    book_.set_aside(ended(5));
    book_.resume(0);
    EXPECT_THAT(send(), ElementsAre(4));
}

TEST_F(OrderBookTest, WhatIsSetAsideGivesWayToAnEarlierRowThatIsReturned) {
    look({row(5, "a"), row(6, "a")});
    EXPECT_THAT(send(), ElementsAre(5));
    book_.set_aside(ended(5));
    look({row(4, "a", EventOrigin::due, 1), row(6, "a")});
    look({row(4, "a", EventOrigin::due, 1), row(7, "a", EventOrigin::due, 1)});
    EXPECT_EQ(book_.rows(), 1U) << "still one row at most";
    EXPECT_EQ(book_.bytes(), 4U);
    book_.resume(0);
    EXPECT_THAT(send(), ElementsAre(4)) << "a dead event that was returned";
    deliver(4);
    EXPECT_THAT(send(), IsEmpty());
    record(4, Recorded::ended);
    look({row(5, "a", EventOrigin::follow), row(6, "a", EventOrigin::follow)});
    EXPECT_THAT(followed(), ElementsAre("a>4"));
    EXPECT_THAT(send(), ElementsAre(5));
}

TEST_F(OrderBookTest, ALookThatFollowsAnAggregateIsNotUsedOnceThatIsSetAside) {
    look({row(1, "a"), row(2, "a"), row(3, "a"), row(4, "a"), row(5, "a")});  // one more than one may have: a gap
    EXPECT_THAT(send(), ElementsAre(1));
    deliver(1);
    EXPECT_THAT(send(), ElementsAre(2));
    deliver(2);
    EXPECT_THAT(send(), ElementsAre(3));
    follows_ = book_.begin_look(10);
    EXPECT_THAT(followed(), ElementsAre("a>4"));
    book_.set_aside(ended(3));
    book_.resume(1);
    EXPECT_EQ(take(row(5, "a", EventOrigin::follow)), TakeResult::ignored) << "4 was dropped, and comes before it";
    book_.end_look(true);
    EXPECT_THAT(send(), ElementsAre(3));
    deliver(3);
    look({row(4, "a", EventOrigin::follow), row(5, "a", EventOrigin::follow)});
    EXPECT_THAT(followed(), ElementsAre("a>3"));
    EXPECT_THAT(send(), ElementsAre(4));
}

TEST_F(OrderBookTest, ALimitedNumberOfThoseSetAsideKeepTheirRow) {
    look({row(1, "a"), row(2, "b"), row(3, "c")});
    for (const std::int64_t id : send()) book_.set_aside(ended(id));
    EXPECT_EQ(book_.rows(), 1U);
    EXPECT_FALSE(book_.room_aside());
    book_.resume(0);
    EXPECT_THAT(send(), ElementsAre(1));
    look({row(2, "b"), row(3, "c")});
    EXPECT_THAT(followed(), ElementsAre("a>1"));
    EXPECT_TRUE(book_.anything_aside());
    book_.resume(2);
    look({row(2, "b", EventOrigin::follow), row(3, "c", EventOrigin::follow)});
    EXPECT_THAT(followed(), ElementsAre("b>", "c>"));
    EXPECT_THAT(send(), ElementsAre(2, 3));
    EXPECT_FALSE(book_.anything_aside());
}

TEST_F(OrderBookTest, OneThatWasRefusedMakesRoomForOneThatKeptNoRow) {
    look({row(1, "a"), row(2, "b"), row(3, "c")});
    for (const std::int64_t id : send()) book_.set_aside(ended(id));
    book_.resume(1);
    EXPECT_THAT(send(), ElementsAre(1));
    Held& refused = ended(1);
    refused.refused = Instant{};
    book_.set_aside(refused);
    EXPECT_EQ(book_.rows(), 0U) << "c still waits without a row";
    look({row(2, "b", EventOrigin::follow)});
    EXPECT_THAT(followed(), ElementsAre("b>"));
    EXPECT_THAT(send(), ElementsAre(2));
    book_.set_aside(ended(2));
    EXPECT_EQ(book_.rows(), 1U);
}

TEST_F(OrderBookTest, AnEventThatWasNotTriedGoesBehindAnEarlierOneThatCameLater) {
    look({row(5, "a"), row(6, "a")});
    EXPECT_THAT(send(), ElementsAre(5));
    look({row(4, "a", EventOrigin::due, 1)});
    book_.put_back(ended(5));
    EXPECT_THAT(send(), ElementsAre(4)) << "a dead event that was sent back while 5 was at the sink";
    deliver(4);
    EXPECT_THAT(send(), ElementsAre(5));
    deliver(5);
    EXPECT_THAT(send(), ElementsAre(6));
}

TEST_F(OrderBookTest, AnEventWithoutANumberThatWasNotTriedGoesFirstAgain) {
    std::vector<EventRow> rows = {row(1, "a"), row(2, "a")};
    for (EventRow& event : rows) event.sequence = 0;
    look(std::move(rows));
    EXPECT_THAT(send(), ElementsAre(1));
    book_.put_back(ended(1));
    EXPECT_THAT(send(), ElementsAre(1));
}

TEST_F(OrderBookTest, ALeavingShardKeepsOnlyWhatIsUnderWay) {
    look({row(1, "a"), row(2, "a")});
    send();
    book_.drop_queued(0);
    EXPECT_EQ(book_.rows(), 1U);
    EXPECT_FALSE(book_.at_rest(0));
    deliver(1);
    EXPECT_THAT(send(), IsEmpty());
    EXPECT_FALSE(book_.at_rest(0)) << "it is not recorded yet";
    record(1, Recorded::ended);
    EXPECT_TRUE(book_.at_rest(0));
}

TEST_F(OrderBookTest, AShardThatIsWantedAgainIsFollowedBehindItsRetries) {
    look({row(1, "a", EventOrigin::due, 1)});
    EXPECT_THAT(send(), ElementsAre(1));
    book_.drop_queued(0);
    deliver(1);
    look({row(1, "a", EventOrigin::due, 1)});  // from the beginning: 2 is kept back behind 1
    record(1, Recorded::ended);
    look({row(2, "a", EventOrigin::follow), row(3, "a")});
    EXPECT_THAT(followed(), ElementsAre("a>1"));
    EXPECT_THAT(send(), ElementsAre(2));
}

/// Two at once could arrive in the wrong order.
TEST_F(OrderBookTest, AnEventWaitsWhileAnotherOfItsAggregateIsAtTheSink) {
    look({row(1, "a")});
    EXPECT_THAT(send(), ElementsAre(1));
    look({row(2, "a"), row(3, "b")});
    EXPECT_THAT(send(), ElementsAre(3));
    look({row(4, "a")});
    EXPECT_THAT(send(), IsEmpty());
    deliver(1);
    EXPECT_THAT(send(), ElementsAre(2));
    EXPECT_THAT(send(), IsEmpty());
    deliver(2);
    EXPECT_THAT(send(), ElementsAre(4));
}

}  // namespace
}  // namespace deliverd::relay
