#include "relay/horizon.h"

#include <gtest/gtest.h>

namespace deliverd::relay {
namespace {

class HorizonTest : public ::testing::Test {
protected:
    /// A poll, `wait` after the last one, that finds these transactions open and ids up to `end`.
    void poll(Duration wait, std::vector<std::uint64_t> open, std::uint64_t next, std::int64_t end = 0) {
        now_ += wait;
        store::EventBatch batch;
        batch.writers = store::OpenWriters{std::move(open), next};
        if (end > horizon_.known()) batch.end = end;
        horizon_.polled(now_, now_, batch);
    }

    static constexpr Duration kWindow = PollPlanner::kLateWindow;
    static constexpr Duration kMoment = std::chrono::milliseconds(1);
    Instant now_ = Instant(std::chrono::hours(1));
    Horizon horizon_;
};

TEST_F(HorizonTest, NothingIsCertainBeforeAPollThatBeganTheWindowLater) {
    poll(kMoment, {}, 100, 7);
    EXPECT_TRUE(horizon_.nothing());
    EXPECT_EQ(horizon_.next_poll(), now_ + kWindow);
    poll(kWindow - kMoment, {}, 100);
    EXPECT_TRUE(horizon_.nothing());
    EXPECT_EQ(horizon_.next_poll(), now_ + kMoment);
    poll(kMoment, {}, 100);
    EXPECT_EQ(horizon_.certain(), 7);
    EXPECT_EQ(horizon_.next_poll(), now_) << "there is something to read";
    poll(kMoment, {}, 100);
    EXPECT_FALSE(horizon_.next_poll());
}

TEST_F(HorizonTest, WaitsForEveryTransactionThatWasOpenThenAlsoForThoseThatBeganLater) {
    poll(kMoment, {101}, 102, 6);  // 100 drew 6 and has ended; 101 may have drawn 5
    poll(kWindow, {101}, 103);
    EXPECT_TRUE(horizon_.nothing());
    poll(kMoment, {101, 103}, 104);
    EXPECT_TRUE(horizon_.nothing());
    EXPECT_EQ(horizon_.next_poll(), now_ + Horizon::kHeldPoll);
    poll(kMoment, {103}, 104);
    EXPECT_EQ(horizon_.certain(), 6) << "103 began after all ids up to 6 were drawn";
}

TEST_F(HorizonTest, WaitsForATransactionThatHadDrawnItsIdAndHadNoNumberYet) {
    poll(kMoment, {}, 100, 6);  // the one that drew 5 becomes 100
    poll(kWindow, {100}, 101);
    EXPECT_TRUE(horizon_.nothing());
    poll(kWindow, {100}, 101);
    EXPECT_TRUE(horizon_.nothing());
    poll(kMoment, {}, 101);
    EXPECT_EQ(horizon_.certain(), 6);
}

TEST_F(HorizonTest, WhatComesLaterDoesNotHoldUpWhatCameBefore) {
    poll(kMoment, {}, 100, 5);
    poll(kWindow / 2, {}, 100, 8);
    poll(kWindow / 2, {}, 100, 9);
    EXPECT_EQ(horizon_.certain(), 5);
    poll(kWindow / 2, {100}, 101);
    EXPECT_EQ(horizon_.certain(), 5) << "100 may have drawn 7";
    poll(kMoment, {}, 101);
    EXPECT_EQ(horizon_.certain(), 8);
    EXPECT_EQ(horizon_.known(), 9);
}

TEST_F(HorizonTest, QuickPollsShareAMark) {
    poll(kMoment, {}, 100, 1);
    poll(PollPlanner::kMarkInterval - kMoment, {}, 100, 2);
    EXPECT_EQ(horizon_.known(), 1);
    poll(kMoment, {}, 100, 3);
    EXPECT_EQ(horizon_.known(), 3);
}

TEST_F(HorizonTest, AnOpenTransactionAddsNoMarks) {
    for (std::int64_t id = 1; id <= 10'000; ++id) poll(PollPlanner::kMarkInterval, {50}, 100, id);
    EXPECT_TRUE(horizon_.nothing());
    EXPECT_LE(horizon_.known(), static_cast<std::int64_t>(Horizon::kMostMarks));
    poll(kWindow, {}, 100, 10'000);
    poll(kWindow, {}, 100, 10'000);
    poll(kWindow, {}, 100, 10'000);
    EXPECT_EQ(horizon_.certain(), 10'000);
}

TEST_F(HorizonTest, InAStoreWithoutOpenWritersEverythingIsCertain) {
    horizon_.polled(now_, now_, {});
    EXPECT_TRUE(horizon_.everything());
    EXPECT_EQ(horizon_.next_poll(), now_);
    horizon_.polled(now_, now_, {});
    EXPECT_FALSE(horizon_.next_poll());
}

}  // namespace
}  // namespace deliverd::relay
