// Aggregates of which rows lie behind the reading position.
#include "relay/order_book.h"
#include "relay/testing/book_fixture.h"

namespace deliverd::relay {
namespace {

using store::EventOrigin;
using store::EventRow;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using TakeResult = OrderBook::TakeResult;

TEST_F(OrderBookTest, APollFollowsAtMostTheGivenNumber) {
    (void)book_.begin_poll(10);
    take(row(1, "a"), false);
    take(row(2, "b"), false);
    book_.end_poll(true);
    for (const auto* name : {"a>", "b>"}) {
        follows_ = book_.begin_poll(1);
        EXPECT_THAT(followed(), ElementsAre(name));
        book_.end_poll(true);
    }
}

TEST_F(OrderBookTest, WhatNeedsNoFollowingAnyMoreIsForgotten) {
    (void)book_.begin_poll(10);
    take(row(1, "a"), false);
    take(row(2, "b"), false);
    book_.end_poll(true);
    EXPECT_TRUE(book_.follow_wanted());
    book_.drop_queued(0);
    poll({});
    EXPECT_THAT(followed(), IsEmpty()) << "the gaps are closed: the reading starts over";
    EXPECT_EQ(book_.aggregates(), 0U);
}

TEST_F(OrderBookTest, AnAggregateIsNotFollowedWhileItIsSetAside) {
    poll({row(1, "a"), row(2, "a"), row(3, "a"), row(4, "a"), row(5, "a")});  // one more than one may have: a gap
    EXPECT_THAT(send(), ElementsAre(1));
    deliver(1);
    EXPECT_THAT(send(), ElementsAre(2));
    EXPECT_FALSE(book_.follow_wanted()) << "two are left";
    deliver(2);
    EXPECT_THAT(send(), ElementsAre(3));
    EXPECT_TRUE(book_.follow_wanted());
    book_.set_aside(ended(3));
    poll({});
    EXPECT_THAT(followed(), IsEmpty());
    EXPECT_FALSE(book_.follow_wanted());
    EXPECT_FALSE(book_.anything_to_send());
    book_.resume(0);
    poll({});
    EXPECT_THAT(followed(), ElementsAre("a>3"));
}

TEST_F(OrderBookTest, AnAggregateThatIsSetAsideWithoutARowIsNotForgotten) {
    poll({row(1, "a"), row(2, "a"), row(3, "a"), row(4, "a"), row(5, "a"), row(9, "b")});
    EXPECT_THAT(send(), ElementsAre(1, 9));
    book_.set_aside(ended(9));
    deliver(1);
    EXPECT_THAT(send(), ElementsAre(2));
    deliver(2);
    EXPECT_THAT(send(), ElementsAre(3));
    book_.set_aside(ended(3));
    EXPECT_EQ(book_.rows(), 3U) << "9, and two to be recorded";
    poll({});
    EXPECT_THAT(followed(), IsEmpty());
    book_.resume(1);
    poll({});
    EXPECT_THAT(followed(), ElementsAre("b>9", "a>"));
}

TEST_F(OrderBookTest, ARowBeyondTheLimitOfItsAggregateIsNotTaken) {
    poll({row(1, "a"), row(2, "a"), row(3, "a"), row(4, "a")});
    EXPECT_EQ(take_in_a_poll(row(5, "a")), TakeResult::ignored);
}

TEST_F(OrderBookTest, AnAggregateIsFollowedOnceEvenIfThereAreSeveralReasons) {
    poll({row(1, "a"), row(2, "a"), row(3, "a"), row(4, "a"), row(5, "a")});
    for (std::int64_t id = 1; id <= 3; ++id) {
        EXPECT_THAT(send(), ElementsAre(id));
        deliver(id);
    }
    EXPECT_THAT(send(), ElementsAre(4));
    poll({});
    EXPECT_THAT(followed(), ElementsAre("a>4"));
}

TEST_F(OrderBookTest, AnAggregateThatAPollFollowsIsNotAskedForAgain) {
    poll({row(1, "a"), row(2, "a"), row(3, "a"), row(4, "a"), row(5, "a")});
    for (std::int64_t id = 1; id <= 3; ++id) {
        EXPECT_THAT(send(), ElementsAre(id));
        if (id < 3) deliver(id);
    }
    follows_ = book_.begin_poll(10);
    EXPECT_THAT(followed(), ElementsAre("a>4"));
    deliver(3);
    EXPECT_THAT(send(), ElementsAre(4));
    EXPECT_FALSE(book_.follow_wanted());
    book_.end_poll(true);
}

TEST_F(OrderBookTest, AFullPageThatIsSentBeforeItsPollEndsIsFollowedByTheNextPage) {
    poll({row(1, "a"), row(2, "a"), row(3, "a"), row(4, "a"), row(5, "a")});
    for (std::int64_t id = 1; id <= 4; ++id) {
        EXPECT_THAT(send(), ElementsAre(id));
        deliver(id);
    }
    follows_ = book_.begin_poll(10);
    EXPECT_THAT(followed(), ElementsAre("a>4"));
    for (std::int64_t id = 5; id <= 6; ++id) {
        take(row(id, "a", EventOrigin::follow));
        EXPECT_THAT(send(), ElementsAre(id));
        deliver(id);
    }
    book_.end_poll(true);
    EXPECT_TRUE(book_.follow_wanted()) << "nothing is left whose sending would ask for it";
    poll({});
    EXPECT_THAT(followed(), ElementsAre("a>6"));
}

TEST_F(OrderBookTest, AnAggregateIsNotFollowedWhileARowOfItIsTriedAgain) {
    (void)book_.begin_poll(10);
    take(row(1, "a"), false);
    take(row(3, "b"), false);
    book_.end_poll(true);
    follows_ = book_.begin_poll(1);
    EXPECT_THAT(followed(), ElementsAre("a>"));
    take(row(2, "b", EventOrigin::due, 1));
    take(row(1, "a", EventOrigin::due, 1));  // what waits behind it is kept back: the page is empty
    book_.end_poll(true);
    EXPECT_EQ(book_.failed_before(), 2U);
    poll({});
    EXPECT_THAT(followed(), IsEmpty());
    EXPECT_THAT(send(), ElementsAre(2, 1));
    for (const std::int64_t id : {1, 2}) {
        deliver(id);
        record(id, Recorded::ended);
    }
    EXPECT_EQ(book_.failed_before(), 0U);
    poll({});
    EXPECT_THAT(followed(), ElementsAre("a>1", "b>2"));
}

TEST_F(OrderBookTest, AFailedPollIsNoReasonToTrustThePosition) {
    (void)book_.begin_poll(10);
    take(row(1, "a"), false);
    book_.end_poll(true);
    (void)book_.begin_poll(10);
    book_.end_poll(false);
    poll({row(1, "a", EventOrigin::follow)});
    EXPECT_THAT(followed(), ElementsAre("a>"));
    EXPECT_THAT(send(), ElementsAre(1));
}

TEST_F(OrderBookTest, PagesThatAPollBringsAreNotUsedOnceTheGapIsClosed) {
    (void)book_.begin_poll(10);
    take(row(1, "a"), false);
    book_.end_poll(true);
    (void)book_.begin_poll(10);
    book_.drop_queued(0);
    EXPECT_EQ(take(row(2, "a", EventOrigin::follow)), TakeResult::ignored);
    book_.end_poll(true);
    EXPECT_EQ(book_.aggregates(), 0U);
    EXPECT_FALSE(book_.full());
}

TEST_F(OrderBookTest, BehindSeveralRowsThatFailedTheRestIsFollowedFromTheBeginning) {
    poll({row(1, "a", EventOrigin::due, 1), row(4, "a", EventOrigin::due, 1), row(6, "a", EventOrigin::due, 1)});
    EXPECT_FALSE(book_.full()) << "it is one gap";
    for (const std::int64_t id : {1, 4, 6}) {
        EXPECT_THAT(send(), ElementsAre(id));
        deliver(id);
        record(id, Recorded::ended);
    }
    poll({});
    EXPECT_THAT(followed(), ElementsAre("a>"));
    EXPECT_EQ(book_.aggregates(), 0U);
    (void)book_.begin_poll(10);
    take(row(8, "b"), false);
    take(row(9, "c"), false);
    EXPECT_FALSE(book_.full()) << "two, and the first was closed";
    book_.end_poll(true);
}

TEST_F(OrderBookTest, ARetryRecordedDuringAPollIsFollowedBehindItsRow) {
    poll({row(1, "a", EventOrigin::due, 1)});
    send();
    deliver(1);
    (void)book_.begin_poll(10);
    record(1, Recorded::ended);
    book_.end_poll(true);
    poll({});
    EXPECT_THAT(followed(), ElementsAre("a>1"));
}

TEST_F(OrderBookTest, ARetryThatCouldNotBeRecordedIsFollowedFromTheBeginning) {
    poll({row(1, "a", EventOrigin::due, 1)});
    send();
    deliver(1);
    record(1, Recorded::unknown);
    poll({});
    EXPECT_THAT(followed(), ElementsAre("a>"));
}

TEST_F(OrderBookTest, ARetryThatFailsAgainClosesItsGap) {
    poll({row(1, "a", EventOrigin::due, 1)});
    send();
    fail(1);
    record(1, Recorded::kept_back);
    EXPECT_EQ(book_.aggregates(), 0U);
    EXPECT_EQ(book_.failed_before(), 0U);
}

TEST_F(OrderBookTest, AFailureMayBeRecordedBeforeTheRetryThatWentFirst) {
    poll({row(2, "a")});
    poll({row(1, "a", EventOrigin::due, 1)});
    EXPECT_THAT(send(), ElementsAre(1));
    deliver(1);
    EXPECT_THAT(send(), ElementsAre(2));
    fail(2);
    record(2, Recorded::kept_back);
    record(1, Recorded::ended);
    EXPECT_EQ(book_.aggregates(), 0U);
    EXPECT_EQ(book_.rows(), 0U);
}

TEST_F(OrderBookTest, AForwardRowThatFailedBeforeIsARetryToo) {
    (void)book_.begin_poll(10);
    EXPECT_EQ(take(row(1, "a", EventOrigin::forward, 1), false), TakeResult::taken);
    EXPECT_EQ(take(row(2, "a")), TakeResult::ignored) << "what waited behind it comes first";
    book_.end_poll(true);
    EXPECT_THAT(send(), ElementsAre(1));
}

TEST_F(OrderBookTest, AnAggregateOfWhichEverythingWasDroppedIsUnknown) {
    poll({row(1, "a")});
    book_.drop_queued(0);
    EXPECT_EQ(book_.rows(), 0U);
    (void)book_.begin_poll(10);
    EXPECT_EQ(take(row(2, "a"), false), TakeResult::ignored);
    book_.end_poll(true);
    EXPECT_THAT(send(), IsEmpty());
    poll({});
    EXPECT_THAT(followed(), ElementsAre("a>"));
    EXPECT_THAT(send(), IsEmpty());
    EXPECT_EQ(book_.aggregates(), 0U);
}

TEST_F(OrderBookTest, WithoutNumbersTheRestIsFollowedFromTheBeginning) {
    std::vector<EventRow> rows;
    for (std::int64_t id = 1; id <= 5; ++id) {
        rows.push_back(row(id, "a"));
        rows.back().sequence = 0;
    }
    poll(std::move(rows));
    for (std::int64_t id = 1; id <= 3; ++id) {
        EXPECT_THAT(send(), ElementsAre(id));
        if (id < 3) deliver(id);
    }
    poll({});
    EXPECT_THAT(followed(), ElementsAre("a>"));
}

TEST_F(OrderBookTest, WhatWaitedBehindARetryIsFollowedPageByPage) {
    poll({row(1, "a", EventOrigin::due, 1), row(9, "a")});
    EXPECT_THAT(send(), ElementsAre(1));
    poll({row(9, "a")});
    EXPECT_THAT(followed(), IsEmpty()) << "it may fail again";
    deliver(1);
    EXPECT_THAT(send(), IsEmpty()) << "9 was not taken: 2 to 8 may lie behind the position";
    record(1, Recorded::ended);
    poll({row(2, "a", EventOrigin::follow), row(3, "a", EventOrigin::follow), row(9, "a")});
    EXPECT_THAT(followed(), ElementsAre("a>1"));
    EXPECT_THAT(send(), ElementsAre(2));
    poll({row(9, "a", EventOrigin::follow), row(9, "a")});
    EXPECT_THAT(followed(), ElementsAre("a>3"));
    poll({row(10, "a")});
    deliver(2);
    EXPECT_THAT(send(), ElementsAre(3));
    deliver(3);
    EXPECT_THAT(send(), ElementsAre(9));
    deliver(9);
    EXPECT_THAT(send(), ElementsAre(10)) << "the page was not full: the position brings the rest";
}

TEST_F(OrderBookTest, AfterADeadRowTheRestIsFollowedFromTheBeginning) {
    poll({row(1, "a"), row(2, "a")});
    send();
    fail(1);
    record(1, Recorded::ended);
    poll({row(3, "a")});
    EXPECT_THAT(followed(), ElementsAre("a>"));
    EXPECT_EQ(book_.rows(), 0U);
}

TEST_F(OrderBookTest, BehindADeadRowThatBlocksNothingIsAskedFor) {
    poll({row(1, "a"), row(2, "a")});
    send();
    fail(1);
    record(1, Recorded::kept_back);
    poll({});
    EXPECT_THAT(followed(), IsEmpty());
}

TEST_F(OrderBookTest, IfDueRowsMayBeMissingAnUnknownAggregateIsFollowed) {
    poll({row(1, "a")});
    (void)book_.begin_poll(10);
    EXPECT_EQ(take(row(2, "a"), false), TakeResult::taken) << "nothing of it lies behind";
    EXPECT_EQ(take(row(3, "b"), false), TakeResult::ignored);
    book_.end_poll(true);
    poll({});
    EXPECT_THAT(followed(), ElementsAre("b>"));
}

TEST_F(OrderBookTest, OneAggregateTakesALimitedPartOfTheHand) {
    poll({row(1, "a"), row(2, "a"), row(3, "a"), row(4, "a"), row(5, "a"), row(6, "a"), row(7, "b")});
    EXPECT_EQ(book_.rows(), 5U);
    EXPECT_FALSE(book_.follow_wanted()) << "there is enough in hand";
    EXPECT_THAT(send(), ElementsAre(1, 7));
    for (std::int64_t id = 1; id <= 3; ++id) {
        deliver(id);
        send();
    }
    poll({row(5, "a", EventOrigin::follow), row(6, "a", EventOrigin::follow)});
    EXPECT_THAT(followed(), ElementsAre("a>4"));
    deliver(4);
    EXPECT_THAT(send(), ElementsAre(5));
}

TEST_F(OrderBookTest, ReportsThatTooManyAggregatesHaveGaps) {
    (void)book_.begin_poll(10);
    for (const char* aggregate : {"a", "b", "c"}) {
        EXPECT_FALSE(book_.full());
        take(row(aggregate[0], aggregate), false);
    }
    EXPECT_TRUE(book_.full());
    book_.end_poll(true);
    poll({});  // all three pages are empty
    EXPECT_FALSE(book_.full());
    EXPECT_EQ(book_.aggregates(), 0U);
}

}  // namespace
}  // namespace deliverd::relay
