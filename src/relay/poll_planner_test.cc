#include "relay/poll_planner.h"

#include "relay/testing/planner_fixture.h"

namespace deliverd::relay {
namespace {

TEST_F(PollPlannerTest, GoesThroughABacklogWithoutPollingBack) {
    EXPECT_EQ(poll(500, true, 60).after, std::nullopt);
    poll(100, true, 60);  // the first sweep
    EXPECT_EQ(poll(1000, true, 60).after, "500");
    EXPECT_EQ(planner_.next_poll(), now_) << "a full batch";
    EXPECT_EQ(poll(1500, true, 60).after, "1000");
}

TEST_F(PollPlannerTest, NearTheEndItBeginsWhereItIsSafe) {
    poll(10);
    now_ += PollPlanner::kLateWindow;
    poll(10);  // a sweep: from the beginning
    now_ += PollPlanner::kMarkInterval;
    poll(20);
    EXPECT_EQ(poll(21).after, "10") << "20 was seen a moment ago";
    now_ += PollPlanner::kLateWindow;
    EXPECT_EQ(poll(22).after, "10") << "this poll is the first that makes 20 safe";
    EXPECT_EQ(poll(23).after, "20");
}

TEST_F(PollPlannerTest, OnlyWhatIsReadAgainNeedsRoom) {
    const PollPlanner::Poll first = poll(500, true, 60);
    EXPECT_FALSE(first.sweep);
    EXPECT_FALSE(first.sees_rows_again);
    const PollPlanner::Poll page = poll(200, true, 60);
    EXPECT_TRUE(page.sweep);
    EXPECT_TRUE(page.sees_rows_again);
    EXPECT_EQ(planner_.next_poll(), now_) << "it took the place of a poll that goes forward";
    EXPECT_FALSE(poll(1000, true, 60).sees_rows_again);
}

TEST_F(PollPlannerTest, WhatIsSafeMovesFromMarkToMark) {
    come_to_the_end();
    const Instant start = now_;  // a mark
    const auto poll_at = [&](int milliseconds, std::int64_t last) {
        now_ = start + std::chrono::milliseconds(milliseconds);
        return poll(last);
    };
    poll_at(10, 20);  // a mark
    poll_at(15, 25);
    poll_at(20, 30);  // a mark
    poll_at(109, 40);
    EXPECT_EQ(poll_at(109, 40).after, "10");
    poll_at(110, 40);
    const PollPlanner::Poll next = poll_at(110, 40);
    EXPECT_EQ(next.after, "20");
    EXPECT_TRUE(next.sees_rows_again);
    poll_at(115, 40);
    EXPECT_EQ(poll_at(115, 40).after, "20");
    poll_at(120, 40);
    EXPECT_EQ(poll_at(120, 40).after, "30");
}

TEST_F(PollPlannerTest, APassOfSeveralPollsMakesSafeWhatWasSeenBeforeItBegan) {
    come_to_the_end();
    now_ += PollPlanner::kMarkInterval;
    poll(20);
    now_ += PollPlanner::kLateWindow / 2;
    poll(20, true, 0.01, false);
    now_ += PollPlanner::kLateWindow / 2;
    EXPECT_EQ(poll(30).after, "20") << "the same pass";
    EXPECT_EQ(poll(30).after, "10");
}

TEST_F(PollPlannerTest, WhatABacklogMadeSafeStaysSo) {
    poll(500, true, 60);
    poll(0, false, 60);  // the first sweep
    EXPECT_EQ(poll(1000, true, 60).after, "500");
    EXPECT_EQ(poll(1010, false, 60).after, "1000");
    now_ += 6 * PollPlanner::kMarkInterval;
    poll(1020);  // kLateWindow after 500 was seen, and less after 1000 was
    EXPECT_EQ(poll(1020).after, "1000") << "not 1010: that poll was not full";
}

TEST_F(PollPlannerTest, AnEmptyPollEndsABacklog) {
    poll(500, true, 60);
    poll(0, false, 60);  // the first sweep
    poll(0, false, 0);
    EXPECT_GT(planner_.next_poll(), now_);
    EXPECT_EQ(next_sweep(0).up_to, std::nullopt) << "near the end what is new comes with a sweep";
}

TEST_F(PollPlannerTest, AFullPollThatBringsNothingNewIsContinued) {
    come_to_the_end();
    poll(20);
    poll(20, true, 0.01, false);
    EXPECT_EQ(planner_.next_poll(), now_);
    EXPECT_EQ(poll(30, true, 0.01, true).after, "20");
    EXPECT_EQ(planner_.next_poll(), now_);
    EXPECT_EQ(poll(40).after, "10") << "it begins where it is safe";
    for (int i = 0; i < 20; ++i) poll(40 + i, true, 0.01, false);
    EXPECT_FALSE(planner_.quiet()) << "there is more";
}

TEST_F(PollPlannerTest, APollThatEndsEarlierMovesNothingBack) {
    come_to_the_end();
    poll(20);
    poll(15);
    EXPECT_GT(planner_.next_poll(), now_);
    poll(17, true);
    EXPECT_EQ(planner_.next_poll(), now_);
    EXPECT_EQ(poll(0).after, "17") << "up to 20, which was seen before";
    EXPECT_GT(planner_.next_poll(), now_);
    EXPECT_EQ(poll(20).after, "10");
}

TEST_F(PollPlannerTest, DueAndFollowedRowsThatAreLeftAreReadAtOnceIfThatHelps) {
    const auto found = [&](bool anything_new, bool more_to_ask) {
        (void)planner_.plan(now_);
        planner_.polled({.began = now_,
                         .ended = now_,
                         .last = std::nullopt,
                         .anything_new = anything_new,
                         .more_to_ask = more_to_ask});
        return planner_.next_poll() == now_;
    };
    EXPECT_TRUE(found(true, true));
    EXPECT_FALSE(found(true, false));
    EXPECT_FALSE(found(false, true));
}

TEST_F(PollPlannerTest, TheTimeOfAPollCountsForUpToHalfOfTheWait) {
    cost_ = sweep_cost_ = kBusy / 4;
    poll(10);
    EXPECT_EQ(planner_.next_poll(), now_ - cost_ + kBusy);
    cost_ = sweep_cost_ = 10 * kBusy;
    poll(20);
    EXPECT_EQ(planner_.next_poll(), now_ + kBusy / 2) << "a slow database is left alone for a while";
}

TEST_F(PollPlannerTest, AFailedPollMakesNothingSafe) {
    poll(10);
    poll(10);
    now_ += PollPlanner::kLateWindow;
    poll(10);
    poll(20);
    SeededRandom random(1);
    now_ += PollPlanner::kLateWindow;
    (void)planner_.plan(now_);
    planner_.failed(now_, now_, random);
    now_ += PollPlanner::kLateWindow;
    EXPECT_EQ(poll(30).after, "10");
}

TEST_F(PollPlannerTest, AfterAFailureItWaitsWhateverHappens) {
    SeededRandom random(1);
    poll(10);
    const auto fail = [&] {
        (void)planner_.plan(now_);
        planner_.due_at(now_ + kMillisecond);
        planner_.failed(now_, now_, random);
        return planner_.next_poll() - now_;
    };
    const Duration first = fail();
    planner_.wake(now_);
    EXPECT_EQ(planner_.next_poll() - now_, first);
    EXPECT_GT(first, 30 * kMillisecond);
    EXPECT_LE(first, 50 * kMillisecond);
    EXPECT_GT(fail(), 50 * kMillisecond);
    planner_.wake(now_);
    EXPECT_GT(planner_.next_poll(), now_);
    planner_.start_over();
    EXPECT_GT(planner_.next_poll(), now_);
    poll(10);
    planner_.wake(now_);
    EXPECT_EQ(planner_.next_poll(), now_);
    EXPECT_LE(fail(), 50 * kMillisecond);
}

TEST_F(PollPlannerTest, TheNumberOfDueTimesIsLimited) {
    while (!planner_.quiet()) poll(0);
    for (int i = 0; i < 10; ++i) poll(0);
    const Instant due = now_ + 2 * kMillisecond;
    for (std::size_t i = 0; i < PollPlanner::kMostDueTimes; ++i) planner_.due_at(due);
    planner_.due_at(now_ + kMillisecond);
    EXPECT_EQ(planner_.next_poll(), due);
}

TEST_F(PollPlannerTest, StartingOverForgetsEverythingAboutThePosition) {
    poll(500, true, 60);
    poll(200, true, 60);  // the first page of a sweep
    while (!planner_.quiet()) poll(0);
    planner_.start_over();
    EXPECT_LE(planner_.next_poll(), now_);
    EXPECT_FALSE(planner_.quiet());
    now_ += PollPlanner::kLateWindow;
    const PollPlanner::Poll first = poll(100, true);
    EXPECT_EQ(first.after, std::nullopt);
    EXPECT_FALSE(first.sweep);
    EXPECT_FALSE(first.sees_rows_again);
    EXPECT_EQ(poll(110).after, std::nullopt) << "events of a new shard may lie before 500";
    EXPECT_EQ(next_sweep(110).after, std::nullopt) << "a new one";
}

TEST_F(PollPlannerTest, StartingOverEndsTheGoingBack) {
    come_to_the_end();
    poll(20);
    poll(15, true);
    planner_.start_over();
    EXPECT_EQ(poll(20).after, std::nullopt);
}

TEST_F(PollPlannerTest, WaitsLongerWhileNothingIsFoundAndNotWhenWoken) {
    cost_ = sweep_cost_ = Duration::zero();
    poll(10);
    EXPECT_EQ(planner_.next_poll(), now_ + kBusy);
    for (int i = 0; i < 20; ++i) poll(0);
    EXPECT_EQ(planner_.next_poll(), now_ + kIdle);
    EXPECT_TRUE(planner_.quiet());
    planner_.poll_again(now_);
    EXPECT_EQ(planner_.next_poll(), now_);
    EXPECT_TRUE(planner_.quiet());
    planner_.wake(now_);
    EXPECT_FALSE(planner_.quiet());
    poll(0);
    EXPECT_EQ(planner_.next_poll(), now_ + 2 * kBusy);
}

TEST_F(PollPlannerTest, PollsWhenARetryComesDue) {
    cost_ = sweep_cost_ = Duration::zero();
    for (int i = 0; i < 20; ++i) poll(0);
    const Instant due = now_ + std::chrono::milliseconds(30);
    planner_.due_at(due);
    EXPECT_EQ(planner_.next_poll(), due);
    poll(0);
    EXPECT_EQ(planner_.next_poll(), due);
    now_ = due;
    poll(0);
    EXPECT_EQ(planner_.next_poll(), now_ + kIdle);
}

TEST_F(PollPlannerTest, AFailureForgetsNoRetryThatComesDueLater) {
    cost_ = sweep_cost_ = Duration::zero();
    for (int i = 0; i < 20; ++i) poll(0);
    const Instant due = now_ + kIdle / 2;
    planner_.due_at(due);
    SeededRandom random(1);
    (void)planner_.plan(now_);
    planner_.failed(now_, now_, random);
    EXPECT_LT(planner_.next_poll(), due);
    poll(0);
    EXPECT_EQ(planner_.next_poll(), due);
}

TEST_F(PollPlannerTest, APollThatBeganBeforeAGainDoesNotMoveThePosition) {
    poll(500, true, 60);
    poll(500, true, 60);
    (void)planner_.plan(now_);
    planner_.start_over();
    planner_.polled(
        {.began = now_, .ended = now_, .last = Position{1000, "1000"}, .full = true, .youngest_seconds = 60});
    EXPECT_EQ(poll(100).after, std::nullopt);
}

TEST_F(PollPlannerTest, APollThatBeganBeforeAGainIsNotBelieved) {
    poll(10);
    (void)planner_.plan(now_);
    planner_.start_over();
    EXPECT_FALSE(planner_.believes(std::nullopt, std::nullopt, std::nullopt, now_, now_));
}

TEST_F(PollPlannerTest, WithoutAnOrderEachPollBeginsAnew) {
    const auto found = [&](const std::string& last, bool full, bool anything_new) {
        PollPlanner::Poll poll = planner_.plan(now_);
        const Position position{0, last};
        EXPECT_TRUE(planner_.believes(std::nullopt, position, std::nullopt, now_, now_));
        planner_.polled({.began = now_, .ended = now_, .last = position, .full = full, .anything_new = anything_new});
        return poll;
    };
    found("aaa", true, true);
    EXPECT_EQ(planner_.next_poll(), now_);  // there may be more
    const PollPlanner::Poll again = found("bbb", true, false);
    EXPECT_EQ(again.after, std::nullopt);
    EXPECT_TRUE(again.sees_rows_again);     // room for those in hand as well
    EXPECT_GT(planner_.next_poll(), now_);  // the same again would only spin
    EXPECT_FALSE(again.sweep);
    found("aba", true, true);
    EXPECT_EQ(found("bbb", false, false).after, std::nullopt);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(found("bbb", true, false).after, std::nullopt);
    EXPECT_TRUE(planner_.quiet());
}

}  // namespace
}  // namespace deliverd::relay
