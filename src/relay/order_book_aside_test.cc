// What was not tried, or waits for its topic.
#include "relay/order_book.h"
#include "relay/testing/book_fixture.h"

namespace deliverd::relay {
namespace {

using store::EventOrigin;
using store::EventRow;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using TakeResult = OrderBook::TakeResult;

TEST_F(OrderBookTest, AnEventThatWasNotTriedStaysFirstInItsAggregateWhichGoesBehindTheOthers) {
    poll({row(1, "a"), row(2, "a"), row(3, "b")});
    Held* first = book_.send_next(Instant{});
    EXPECT_EQ(first->row.message.id, 1);
    book_.put_back(*book_.at_sink(first->row.message));
    EXPECT_THAT(send(), ElementsAre(3, 1));
    deliver(1);
    EXPECT_THAT(send(), ElementsAre(2));
}

TEST_F(OrderBookTest, WhatIsSetAsideKeepsItsFirstRowAndFollowsTheRest) {
    poll({row(1, "a"), row(2, "a"), row(3, "b")});
    EXPECT_THAT(send(), ElementsAre(1, 3));
    book_.set_aside(ended(1));
    EXPECT_EQ(book_.rows(), 2U) << "what was behind it is dropped";
    EXPECT_THAT(send(), IsEmpty());
    poll({row(2, "a"), row(4, "a")});
    EXPECT_EQ(book_.rows(), 2U) << "and ignored";
    book_.resume(0);
    EXPECT_THAT(send(), ElementsAre(1));
    deliver(1);
    poll({row(2, "a", EventOrigin::follow), row(4, "a", EventOrigin::follow)});
    EXPECT_THAT(followed(), ElementsAre("a>1"));
    EXPECT_THAT(send(), ElementsAre(2));
}

TEST_F(OrderBookTest, WhatIsSetAsideKeepsAnEarlierRowThatCameInTheMeantime) {
    poll({row(5, "a"), row(6, "a")});
    EXPECT_THAT(send(), ElementsAre(5));
    poll({row(4, "a", EventOrigin::due, 1)});
    book_.set_aside(ended(5));
    book_.resume(0);
    EXPECT_THAT(send(), ElementsAre(4));
}

TEST_F(OrderBookTest, WhatIsSetAsideGivesWayToAnEarlierRowThatIsReturned) {
    poll({row(5, "a"), row(6, "a")});
    EXPECT_THAT(send(), ElementsAre(5));
    book_.set_aside(ended(5));
    poll({row(4, "a", EventOrigin::due, 1), row(6, "a")});
    poll({row(4, "a", EventOrigin::due, 1), row(7, "a", EventOrigin::due, 1)});
    EXPECT_EQ(book_.rows(), 1U) << "still one row at most";
    EXPECT_EQ(book_.bytes(), 4U);
    EXPECT_THAT(send(), IsEmpty()) << "it waits in its place";
    book_.resume(0);
    EXPECT_THAT(send(), ElementsAre(4)) << "a dead event that was returned";
    deliver(4);
    EXPECT_THAT(send(), IsEmpty());
    record(4, Recorded::ended);
    poll({row(5, "a", EventOrigin::follow), row(6, "a", EventOrigin::follow)});
    EXPECT_THAT(followed(), ElementsAre("a>4"));
    EXPECT_THAT(send(), ElementsAre(5));
}

TEST_F(OrderBookTest, WhatIsSetAsideGivesWayToNothingElse) {
    poll({row(5, "a"), row(8, "b")});
    for (const std::int64_t id : send()) book_.set_aside(ended(id));
    poll({row(4, "a")});
    poll({row(6, "a", EventOrigin::due, 1)});
    poll({row(7, "b", EventOrigin::due, 1)});  // b keeps no row
    EXPECT_EQ(book_.rows(), 1U);
    book_.resume(0);
    EXPECT_THAT(send(), ElementsAre(5));
}

TEST_F(OrderBookTest, WithoutNumbersWhatIsSetAsideKeepsItsRow) {
    std::vector<EventRow> rows = {row(1, "a"), row(2, "a", EventOrigin::due, 1)};
    for (EventRow& event : rows) event.sequence = 0;
    poll({rows[0]});
    EXPECT_THAT(send(), ElementsAre(1));
    book_.set_aside(ended(1));
    poll({rows[1]});
    book_.resume(0);
    EXPECT_THAT(send(), ElementsAre(1));
}

TEST_F(OrderBookTest, APollThatFollowsAnAggregateIsNotUsedOnceThatIsSetAside) {
    poll({row(1, "a"), row(2, "a"), row(3, "a"), row(4, "a"), row(5, "a")});  // one more than one may have: a gap
    EXPECT_THAT(send(), ElementsAre(1));
    deliver(1);
    EXPECT_THAT(send(), ElementsAre(2));
    deliver(2);
    EXPECT_THAT(send(), ElementsAre(3));
    follows_ = book_.begin_poll(10);
    EXPECT_THAT(followed(), ElementsAre("a>4"));
    book_.set_aside(ended(3));
    book_.resume(1);
    EXPECT_EQ(take(row(5, "a", EventOrigin::follow)), TakeResult::ignored) << "4 was dropped, and comes before it";
    book_.end_poll(true);
    EXPECT_THAT(send(), ElementsAre(3));
    deliver(3);
    poll({row(4, "a", EventOrigin::follow), row(5, "a", EventOrigin::follow)});
    EXPECT_THAT(followed(), ElementsAre("a>3"));
    EXPECT_THAT(send(), ElementsAre(4));
}

TEST_F(OrderBookTest, ALimitedNumberOfThoseSetAsideKeepTheirRow) {
    poll({row(1, "a"), row(2, "b"), row(3, "c")});
    for (const std::int64_t id : send()) book_.set_aside(ended(id));
    EXPECT_EQ(book_.rows(), 1U);
    EXPECT_FALSE(book_.room_aside());
    book_.resume(0);
    EXPECT_THAT(send(), ElementsAre(1));
    poll({row(2, "b"), row(3, "c")});
    EXPECT_THAT(followed(), ElementsAre("a>1"));
    EXPECT_TRUE(book_.anything_aside());
    book_.resume(2);
    poll({row(2, "b", EventOrigin::follow), row(3, "c", EventOrigin::follow)});
    EXPECT_THAT(followed(), ElementsAre("b>", "c>"));
    EXPECT_THAT(send(), ElementsAre(2, 3));
    EXPECT_FALSE(book_.anything_aside());
}

TEST_F(OrderBookTest, OneThatWasRefusedMakesRoomForOneThatKeptNoRow) {
    poll({row(1, "a"), row(2, "b"), row(3, "c")});
    for (const std::int64_t id : send()) book_.set_aside(ended(id));
    book_.resume(1);
    EXPECT_THAT(send(), ElementsAre(1));
    Held& refused = ended(1);
    refused.refused = Instant{};
    book_.set_aside(refused);
    EXPECT_EQ(book_.rows(), 0U) << "c still waits without a row";
    poll({row(2, "b", EventOrigin::follow)});
    EXPECT_THAT(followed(), ElementsAre("b>"));
    EXPECT_THAT(send(), ElementsAre(2));
    book_.set_aside(ended(2));
    EXPECT_EQ(book_.rows(), 1U);
}

TEST_F(OrderBookTest, OneThatWasRefusedKeepsItsRowIfNobodyNeedsThePlace) {
    poll({row(1, "a")});
    EXPECT_THAT(send(), ElementsAre(1));
    Held& refused = ended(1);
    refused.refused = Instant{};
    book_.set_aside(refused);
    EXPECT_EQ(book_.rows(), 1U);
}

TEST_F(OrderBookTest, WhatComesAfterAnEventThatWasNotTriedGoesBehindIt) {
    poll({row(1, "a")});
    EXPECT_THAT(send(), ElementsAre(1));
    book_.put_back(ended(1));
    poll({row(2, "a")});
    EXPECT_THAT(send(), ElementsAre(1));
    book_.put_back(ended(1));
    poll({row(3, "a")});
    for (std::int64_t id = 1; id <= 3; ++id) {
        EXPECT_THAT(send(), ElementsAre(id));
        deliver(id);
    }
}

TEST_F(OrderBookTest, WhatComesWhileAnEventIsAtTheSinkStaysBehindItIfThatWasNotTried) {
    poll({row(1, "a")});
    EXPECT_THAT(send(), ElementsAre(1));
    poll({row(2, "a")});
    book_.put_back(ended(1));
    EXPECT_THAT(send(), ElementsAre(1));
    deliver(1);
    EXPECT_THAT(send(), ElementsAre(2));
}

TEST_F(OrderBookTest, AnEventThatWasNotTriedGoesBehindAnEarlierOneThatCameLater) {
    poll({row(5, "a"), row(6, "a")});
    EXPECT_THAT(send(), ElementsAre(5));
    poll({row(4, "a", EventOrigin::due, 1)});
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
    poll(std::move(rows));
    EXPECT_THAT(send(), ElementsAre(1));
    book_.put_back(ended(1));
    EXPECT_THAT(send(), ElementsAre(1));
}

}  // namespace
}  // namespace deliverd::relay
