// Shards that come and go.
#include "relay/order_book.h"
#include "relay/testing/book_fixture.h"

namespace deliverd::relay {
namespace {

using store::EventOrigin;
using store::EventRow;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using TakeResult = OrderBook::TakeResult;

TEST_F(OrderBookTest, AShardIsAtRestOnceWhatWasNotTriedIsPutBack) {
    poll({row(1, "a")});
    EXPECT_THAT(send(), ElementsAre(1));
    EXPECT_FALSE(book_.at_rest(0));
    book_.put_back(ended(1));
    EXPECT_TRUE(book_.at_rest(0));
    EXPECT_THAT(send(), ElementsAre(1));
}

TEST_F(OrderBookTest, AShardThatWasGivenBackAndRegainedHasNothingSetAside) {
    poll({row(1, "a")});
    EXPECT_THAT(send(), ElementsAre(1));
    book_.set_aside(ended(1));
    book_.drop_queued(0);
    EXPECT_EQ(book_.aggregates(), 0U);
    EXPECT_FALSE(book_.anything_aside());
    poll({row(1, "a")});
    EXPECT_THAT(send(), ElementsAre(1));
}

TEST_F(OrderBookTest, AShardThatIsGivenBackTouchesNoOther) {
    poll({row(1, "a"), row(2, "b"), row(100, "other"), row(101, "other")});
    EXPECT_THAT(send(), ElementsAre(1, 2, 100));
    for (const std::int64_t id : {100, 1, 2}) book_.set_aside(ended(id));
    book_.drop_queued(0);
    EXPECT_EQ(book_.rows(), 1U);
    EXPECT_EQ(book_.aggregates(), 1U);
    EXPECT_EQ(take_in_a_poll(row(103, "other", EventOrigin::due, 1)), TakeResult::ignored) << "it is still aside";
    book_.drop_queued(1);
    EXPECT_FALSE(book_.anything_aside());
    EXPECT_EQ(book_.aggregates(), 0U);
    poll({row(1, "a"), row(102, "other")});
    book_.drop_queued(0);
    EXPECT_THAT(send(), ElementsAre(102));
}

TEST_F(OrderBookTest, ALeavingShardForgetsItsRetriesAndGaps) {
    poll({row(1, "a", EventOrigin::due, 1), row(2, "b"), row(3, "b"), row(4, "b"), row(5, "b"), row(6, "b")});
    book_.drop_queued(0);
    EXPECT_EQ(book_.rows(), 0U);
    EXPECT_EQ(book_.failed_before(), 0U);
    EXPECT_THAT(send(), IsEmpty());
    EXPECT_EQ(book_.aggregates(), 0U);
    poll({row(2, "b")});
    EXPECT_THAT(send(), ElementsAre(2)) << "read again from the beginning";
}

TEST_F(OrderBookTest, AtTheEndWhatWasNotSentIsCounted) {
    poll({row(1, "a"), row(2, "a"), row(3, "b")});
    EXPECT_NE(book_.send_next(Instant{}), nullptr);
    EXPECT_EQ(book_.drop_all_queued(), 2U);
    EXPECT_EQ(book_.rows(), 1U);
}

TEST_F(OrderBookTest, ALostShardIsForgottenAndItsOutcomesAreIgnored) {
    poll({row(1, "a"), row(2, "a"), row(100, "other")});
    EXPECT_THAT(send(), ElementsAre(1, 100));
    book_.drop_shard(0);
    EXPECT_EQ(book_.at_sink(), 2U) << "the sink still has its message";
    EXPECT_EQ(book_.rows(), 2U) << "what was queued is dropped";
    EXPECT_TRUE(book_.at_rest(0));
    EXPECT_FALSE(book_.at_rest(1));
    poll({row(1, "a")});
    EXPECT_THAT(send(), ElementsAre(1)) << "the shard came back: the row is read and sent anew";
    deliver(100);
    record(100, Recorded::ended);
    EXPECT_TRUE(book_.at_rest(1));
}

TEST_F(OrderBookTest, NothingOfALostShardIsLeftInAnyList) {
    // In turn: ready, set aside with and without its row, to be followed, followed by the poll under way, failed and
    // recorded during that poll, recorded during it.
    poll({row(1, "a"), row(2, "b"), row(3, "c")});
    EXPECT_THAT(send(), ElementsAre(1, 2, 3));
    for (const std::int64_t id : {1, 2}) book_.set_aside(ended(id));
    poll({row(4, "d"), row(5, "e")});
    EXPECT_EQ(book_.send_next(Instant{})->row.message.id, 4);
    (void)book_.begin_poll(10);
    take(row(6, "f"), false);
    take(row(7, "g"), false);
    book_.end_poll(true);
    EXPECT_TRUE(book_.full()) << "a, b, f and g";
    follows_ = book_.begin_poll(1);
    EXPECT_THAT(followed(), ElementsAre("f>"));
    fail(3);
    record(3, Recorded::kept_back);
    book_.drop_shard(0);
    EXPECT_FALSE(book_.follow_wanted());
    EXPECT_FALSE(book_.anything_to_send());
    EXPECT_FALSE(book_.anything_aside());
    EXPECT_FALSE(book_.full());
    EXPECT_EQ(book_.aggregates(), 0U);
    EXPECT_EQ(take(row(6, "f", EventOrigin::follow)), TakeResult::ignored);
    book_.end_poll(true);
    EXPECT_EQ(book_.rows(), 1U) << "4 is at the sink";
}

TEST_F(OrderBookTest, ALostShardTouchesNoOther) {
    poll({row(1, "a"), row(100, "other"), row(101, "other")});
    EXPECT_THAT(send(), ElementsAre(1, 100));
    deliver(1);
    deliver(100);
    (void)book_.begin_poll(10);
    record(1, Recorded::ended);
    record(100, Recorded::ended);
    book_.drop_shard(0);
    book_.end_poll(true);
    EXPECT_EQ(book_.rows(), 1U);
    EXPECT_FALSE(book_.full()) << "it had no gap";
    EXPECT_THAT(send(), ElementsAre(101));
}

TEST_F(OrderBookTest, OutcomesOfALostShardEndWithoutTrace) {
    poll({row(1, "a")});
    send();
    book_.drop_shard(0);
    EXPECT_EQ(book_.at_sink(*at_sink_.at(1)), nullptr);
    EXPECT_EQ(book_.rows(), 0U);
    EXPECT_EQ(book_.at_sink(), 0U);
    EXPECT_EQ(book_.bytes(), 0U);
}

TEST_F(OrderBookTest, ALeavingShardKeepsOnlyWhatIsUnderWay) {
    poll({row(1, "a"), row(2, "a")});
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

TEST_F(OrderBookTest, AShardThatIsWantedAgainContinuesBehindWhatIsUnderWay) {
    poll({row(1, "a"), row(2, "a")});
    send();
    book_.drop_queued(0);
    poll({row(1, "a"), row(2, "a")});
    deliver(1);
    EXPECT_THAT(send(), ElementsAre(2));
}

TEST_F(OrderBookTest, AShardThatIsWantedAgainIsFollowedAfterItsRetries) {
    poll({row(1, "a", EventOrigin::due, 1)});
    EXPECT_THAT(send(), ElementsAre(1));
    book_.drop_queued(0);
    deliver(1);
    poll({row(1, "a", EventOrigin::due, 1)});  // from the beginning: 2 is kept back behind 1
    record(1, Recorded::ended);
    poll({row(2, "a", EventOrigin::follow), row(3, "a")});
    EXPECT_THAT(followed(), ElementsAre("a>"));
    EXPECT_THAT(send(), ElementsAre(2));
}

/// What it was followed behind is no longer in hand.
TEST_F(OrderBookTest, AShardThatIsWantedAgainIsFollowedFromTheBeginningIfSomethingWasSetAside) {
    poll({row(2, "a")});
    poll({row(1, "a", EventOrigin::due, 1)});
    EXPECT_THAT(send(), ElementsAre(1));
    deliver(1);
    EXPECT_THAT(send(), ElementsAre(2));
    book_.set_aside(ended(2));
    book_.drop_queued(0);
    record(1, Recorded::ended);
    poll({row(2, "a", EventOrigin::follow), row(3, "a")});
    EXPECT_THAT(followed(), ElementsAre("a>"));
    EXPECT_THAT(send(), ElementsAre(2));
}

}  // namespace
}  // namespace deliverd::relay
