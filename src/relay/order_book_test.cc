#include "relay/order_book.h"

#include "relay/testing/book_fixture.h"

namespace deliverd::relay {
namespace {

using store::EventOrigin;
using store::EventRow;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using TakeResult = OrderBook::TakeResult;

TEST_F(OrderBookTest, EventsOfAnAggregateGoOneAtATimeInOrder) {
    poll({row(1, "a"), row(2, "b"), row(5, "a"), row(3, "a")});
    EXPECT_THAT(send(), ElementsAre(1, 2));
    EXPECT_THAT(send(), IsEmpty());
    deliver(1);
    EXPECT_THAT(send(), ElementsAre(3)) << "before 1 is recorded";
    deliver(3);
    EXPECT_THAT(send(), ElementsAre(5));
}

TEST_F(OrderBookTest, HeadersCountAmongTheBytesInHand) {
    EventRow event = row(1, "a");
    event.message.body.assign(1000, 'x');
    for (int i = 0; i < 1000; ++i) event.message.headers.emplace_back(std::to_string(i), "1");
    poll({std::move(event)});
    EXPECT_GE(book_.bytes(), 1000 * 2 * sizeof(std::string));
    send();
    deliver(1);
    EXPECT_EQ(book_.bytes(), 0U);
    EXPECT_EQ(book_.settling("1", {0, 7})->row.message.headers.capacity(), 0U) << "counted no more, kept no more";
    EXPECT_LT(book_.settling("1", {0, 7})->row.message.body.capacity(), 1000U);
}

TEST_F(OrderBookTest, RowsInHandAreRecognised) {
    poll({row(1, "a"), row(2, "a")});
    EXPECT_THAT(send(), ElementsAre(1));
    poll({row(1, "a"), row(2, "a")});
    deliver(1);
    poll({row(1, "a"), row(2, "a")});
    EXPECT_EQ(book_.rows(), 2U);
    EXPECT_THAT(send(), ElementsAre(2));
}

TEST_F(OrderBookTest, ARowRecordedDuringAPollIsKnownUntilThatPollEnds) {
    poll({row(1, "a")});
    send();
    deliver(1);
    (void)book_.begin_poll(10);
    record(1, Recorded::ended);
    EXPECT_EQ(take(row(1, "a")), TakeResult::known) << "the poll saw the table as it was before";
    EXPECT_TRUE(book_.at_rest(0));
    EXPECT_EQ(book_.unfinished(), 0U);
    EXPECT_EQ(book_.settling("1", {0, 7}), nullptr) << "recorded once";
    book_.end_poll(true);
    EXPECT_EQ(book_.rows(), 0U);
    EXPECT_EQ(book_.aggregates(), 0U);
}

TEST_F(OrderBookTest, ARowRecordedBetweenPollsIsForgottenAtOnce) {
    poll({row(1, "a")});
    EXPECT_EQ(book_.settling("1", {0, 7}), nullptr) << "it was not sent yet";
    EXPECT_EQ(book_.at_sink(Message{}), nullptr);
    Held* held = book_.send_next(Instant(kMoment));
    EXPECT_EQ(held->began, Instant(kMoment));
    EXPECT_EQ(book_.settling("1", {0, 7}), nullptr) << "it has not ended yet";
    book_.delivered(*book_.at_sink(held->row.message));
    EXPECT_FALSE(book_.anything_to_send());
    EXPECT_EQ(book_.aggregates(), 0U);
    EXPECT_EQ(book_.settling("1", {0, 8}), nullptr) << "another tenure";
    EXPECT_EQ(book_.settling("2", {0, 7}), nullptr);
    record(1, Recorded::ended);
    EXPECT_EQ(book_.rows(), 0U);
}

TEST_F(OrderBookTest, NothingFollowsAFailureUntilItIsRecordedAndThePollHasEnded) {
    poll({row(1, "a"), row(2, "a")});
    send();
    fail(1);
    EXPECT_THAT(send(), IsEmpty());
    EXPECT_EQ(book_.rows(), 1U) << "the second was dropped";
    (void)book_.begin_poll(10);
    EXPECT_EQ(take(row(2, "a")), TakeResult::ignored);
    record(1, Recorded::kept_back);
    EXPECT_EQ(take(row(2, "a")), TakeResult::ignored) << "this poll began before the retry was recorded";
    book_.end_poll(true);
    EXPECT_THAT(send(), IsEmpty());
    EXPECT_EQ(book_.aggregates(), 0U) << "the database keeps it back";
}

/// Two at once could arrive in the wrong order.
TEST_F(OrderBookTest, AnEventWaitsWhileAnotherOfItsAggregateIsAtTheSink) {
    poll({row(1, "a")});
    EXPECT_THAT(send(), ElementsAre(1));
    poll({row(2, "a"), row(3, "b")});
    EXPECT_THAT(send(), ElementsAre(3));
    poll({row(4, "a")});
    EXPECT_THAT(send(), IsEmpty());
    deliver(1);
    EXPECT_THAT(send(), ElementsAre(2));
    EXPECT_THAT(send(), IsEmpty());
    deliver(2);
    EXPECT_THAT(send(), ElementsAre(4));
}

}  // namespace
}  // namespace deliverd::relay
