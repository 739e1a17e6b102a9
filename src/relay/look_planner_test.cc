#include "relay/look_planner.h"

#include "relay/testing/planner_fixture.h"

namespace deliverd::relay {
namespace {

TEST_F(LookPlannerTest, GoesThroughABacklogWithoutLookingBack) {
    EXPECT_EQ(look(500, true, 60).after, std::nullopt);
    look(100, true, 60);  // the first sweep
    EXPECT_EQ(look(1000, true, 60).after, "500");
    EXPECT_EQ(planner_.next_look(), now_) << "a full batch";
    EXPECT_EQ(look(1500, true, 60).after, "1000");
}

TEST_F(LookPlannerTest, NearTheEndItBeginsWhereItIsSafe) {
    look(10);
    now_ += LookPlanner::kLateWindow;
    look(10);  // a sweep: from the beginning
    now_ += LookPlanner::kMarkInterval;
    look(20);
    EXPECT_EQ(look(21).after, "10") << "20 was seen a moment ago";
    now_ += LookPlanner::kLateWindow;
    EXPECT_EQ(look(22).after, "10") << "this look is the first that makes 20 safe";
    EXPECT_EQ(look(23).after, "20");
}

TEST_F(LookPlannerTest, OnlyWhatIsReadAgainNeedsRoom) {
    const LookPlanner::Look first = look(500, true, 60);
    EXPECT_FALSE(first.sweep);
    EXPECT_FALSE(first.sees_rows_again);
    const LookPlanner::Look page = look(200, true, 60);
    EXPECT_TRUE(page.sweep);
    EXPECT_TRUE(page.sees_rows_again);
    EXPECT_EQ(planner_.next_look(), now_) << "it took the place of a look that goes forward";
    EXPECT_FALSE(look(1000, true, 60).sees_rows_again);
}

TEST_F(LookPlannerTest, WhatIsSafeMovesFromMarkToMark) {
    come_to_the_end();
    const Instant start = now_;  // a mark
    const auto look_at = [&](int milliseconds, std::int64_t last) {
        now_ = start + std::chrono::milliseconds(milliseconds);
        return look(last);
    };
    look_at(10, 20);  // a mark
    look_at(15, 25);
    look_at(20, 30);  // a mark
    look_at(109, 40);
    EXPECT_EQ(look_at(109, 40).after, "10");
    look_at(110, 40);
    const LookPlanner::Look next = look_at(110, 40);
    EXPECT_EQ(next.after, "20");
    EXPECT_TRUE(next.sees_rows_again);
    look_at(115, 40);
    EXPECT_EQ(look_at(115, 40).after, "20");
    look_at(120, 40);
    EXPECT_EQ(look_at(120, 40).after, "30");
}

TEST_F(LookPlannerTest, APassOfSeveralLooksMakesSafeWhatWasSeenBeforeItBegan) {
    come_to_the_end();
    now_ += LookPlanner::kMarkInterval;
    look(20);
    now_ += LookPlanner::kLateWindow / 2;
    look(20, true, 0.01, false);
    now_ += LookPlanner::kLateWindow / 2;
    EXPECT_EQ(look(30).after, "20") << "the same pass";
    EXPECT_EQ(look(30).after, "10");
}

TEST_F(LookPlannerTest, WhatABacklogMadeSafeStaysSo) {
    look(500, true, 60);
    look(0, false, 60);  // the first sweep
    EXPECT_EQ(look(1000, true, 60).after, "500");
    EXPECT_EQ(look(1010, false, 60).after, "1000");
    now_ += 6 * LookPlanner::kMarkInterval;
    look(1020);  // kLateWindow after 500 was seen, and less after 1000 was
    EXPECT_EQ(look(1020).after, "1000") << "not 1010: that look was not full";
}

TEST_F(LookPlannerTest, AnEmptyLookEndsABacklog) {
    look(500, true, 60);
    look(0, false, 60);  // the first sweep
    look(0, false, 0);
    EXPECT_GT(planner_.next_look(), now_);
    EXPECT_EQ(next_sweep(0).up_to, std::nullopt) << "near the end what is new comes with a sweep";
}

TEST_F(LookPlannerTest, AFullLookThatBringsNothingNewIsContinued) {
    come_to_the_end();
    look(20);
    look(20, true, 0.01, false);
    EXPECT_EQ(planner_.next_look(), now_);
    EXPECT_EQ(look(30, true, 0.01, true).after, "20");
    EXPECT_EQ(planner_.next_look(), now_);
    EXPECT_EQ(look(40).after, "10") << "it begins where it is safe";
    for (int i = 0; i < 20; ++i) look(40 + i, true, 0.01, false);
    EXPECT_FALSE(planner_.quiet()) << "there is more";
}

TEST_F(LookPlannerTest, ALookThatEndsEarlierMovesNothingBack) {
    come_to_the_end();
    look(20);
    look(15);
    EXPECT_GT(planner_.next_look(), now_);
    look(17, true);
    EXPECT_EQ(planner_.next_look(), now_);
    EXPECT_EQ(look(0).after, "17") << "up to 20, which was seen before";
    EXPECT_GT(planner_.next_look(), now_);
    EXPECT_EQ(look(20).after, "10");
}

TEST_F(LookPlannerTest, DueAndFollowedRowsThatAreLeftAreReadAtOnceIfThatHelps) {
    const auto found = [&](bool anything_new, bool more_to_ask) {
        (void)planner_.plan(now_);
        planner_.looked({.began = now_,
                         .ended = now_,
                         .last = std::nullopt,
                         .anything_new = anything_new,
                         .more_to_ask = more_to_ask});
        return planner_.next_look() == now_;
    };
    EXPECT_TRUE(found(true, true));
    EXPECT_FALSE(found(true, false));
    EXPECT_FALSE(found(false, true));
}

TEST_F(LookPlannerTest, TheTimeOfALookCountsForUpToHalfOfTheWait) {
    cost_ = sweep_cost_ = kBusy / 4;
    look(10);
    EXPECT_EQ(planner_.next_look(), now_ - cost_ + kBusy);
    cost_ = sweep_cost_ = 10 * kBusy;
    look(20);
    EXPECT_EQ(planner_.next_look(), now_ + kBusy / 2) << "a slow database is left alone for a while";
}

TEST_F(LookPlannerTest, AFailedLookMakesNothingSafe) {
    look(10);
    look(10);
    now_ += LookPlanner::kLateWindow;
    look(10);
    look(20);
    SeededRandom random(1);
    now_ += LookPlanner::kLateWindow;
    (void)planner_.plan(now_);
    planner_.failed(now_, now_, random);
    now_ += LookPlanner::kLateWindow;
    EXPECT_EQ(look(30).after, "10");
}

TEST_F(LookPlannerTest, AfterAFailureItWaitsWhateverHappens) {
    SeededRandom random(1);
    look(10);
    const auto fail = [&] {
        (void)planner_.plan(now_);
        planner_.due_at(now_ + kMillisecond);
        planner_.failed(now_, now_, random);
        return planner_.next_look() - now_;
    };
    const Duration first = fail();
    planner_.wake(now_);
    EXPECT_EQ(planner_.next_look() - now_, first);
    EXPECT_GT(first, 30 * kMillisecond);
    EXPECT_LE(first, 50 * kMillisecond);
    EXPECT_GT(fail(), 50 * kMillisecond);
    planner_.wake(now_);
    EXPECT_GT(planner_.next_look(), now_);
    planner_.start_over();
    EXPECT_GT(planner_.next_look(), now_);
    look(10);
    planner_.wake(now_);
    EXPECT_EQ(planner_.next_look(), now_);
    EXPECT_LE(fail(), 50 * kMillisecond);
}

TEST_F(LookPlannerTest, TheNumberOfDueTimesIsLimited) {
    while (!planner_.quiet()) look(0);
    for (int i = 0; i < 10; ++i) look(0);
    const Instant due = now_ + 2 * kMillisecond;
    for (std::size_t i = 0; i < LookPlanner::kMostDueTimes; ++i) planner_.due_at(due);
    planner_.due_at(now_ + kMillisecond);
    EXPECT_EQ(planner_.next_look(), due);
}

TEST_F(LookPlannerTest, StartingOverForgetsEverythingAboutThePosition) {
    look(500, true, 60);
    look(200, true, 60);  // the first page of a sweep
    while (!planner_.quiet()) look(0);
    planner_.start_over();
    EXPECT_LE(planner_.next_look(), now_);
    EXPECT_FALSE(planner_.quiet());
    now_ += LookPlanner::kLateWindow;
    const LookPlanner::Look first = look(100, true);
    EXPECT_EQ(first.after, std::nullopt);
    EXPECT_FALSE(first.sweep);
    EXPECT_FALSE(first.sees_rows_again);
    EXPECT_EQ(look(110).after, std::nullopt) << "events of a new shard may lie before 500";
    EXPECT_EQ(next_sweep(110).after, std::nullopt) << "a new one";
}

TEST_F(LookPlannerTest, StartingOverEndsTheGoingBack) {
    come_to_the_end();
    look(20);
    look(15, true);
    planner_.start_over();
    EXPECT_EQ(look(20).after, std::nullopt);
}

TEST_F(LookPlannerTest, WaitsLongerWhileNothingIsFoundAndNotWhenWoken) {
    cost_ = sweep_cost_ = Duration::zero();
    look(10);
    EXPECT_EQ(planner_.next_look(), now_ + kBusy);
    for (int i = 0; i < 20; ++i) look(0);
    EXPECT_EQ(planner_.next_look(), now_ + kIdle);
    EXPECT_TRUE(planner_.quiet());
    planner_.look_again(now_);
    EXPECT_EQ(planner_.next_look(), now_);
    EXPECT_TRUE(planner_.quiet());
    planner_.wake(now_);
    EXPECT_FALSE(planner_.quiet());
    look(0);
    EXPECT_EQ(planner_.next_look(), now_ + 2 * kBusy);
}

TEST_F(LookPlannerTest, LooksWhenARetryComesDue) {
    cost_ = sweep_cost_ = Duration::zero();
    for (int i = 0; i < 20; ++i) look(0);
    const Instant due = now_ + std::chrono::milliseconds(30);
    planner_.due_at(due);
    EXPECT_EQ(planner_.next_look(), due);
    look(0);
    EXPECT_EQ(planner_.next_look(), due);
    now_ = due;
    look(0);
    EXPECT_EQ(planner_.next_look(), now_ + kIdle);
}

TEST_F(LookPlannerTest, AFailureForgetsNoRetryThatComesDueLater) {
    cost_ = sweep_cost_ = Duration::zero();
    for (int i = 0; i < 20; ++i) look(0);
    const Instant due = now_ + kIdle / 2;
    planner_.due_at(due);
    SeededRandom random(1);
    (void)planner_.plan(now_);
    planner_.failed(now_, now_, random);
    EXPECT_LT(planner_.next_look(), due);
    look(0);
    EXPECT_EQ(planner_.next_look(), due);
}

TEST_F(LookPlannerTest, ALookThatBeganBeforeAGainDoesNotMoveThePosition) {
    look(500, true, 60);
    look(500, true, 60);
    (void)planner_.plan(now_);
    planner_.start_over();
    planner_.looked(
        {.began = now_, .ended = now_, .last = Position{1000, "1000"}, .full = true, .youngest_seconds = 60});
    EXPECT_EQ(look(100).after, std::nullopt);
}

TEST_F(LookPlannerTest, ALookThatBeganBeforeAGainIsNotBelieved) {
    look(10);
    (void)planner_.plan(now_);
    planner_.start_over();
    EXPECT_FALSE(planner_.believes(std::nullopt, std::nullopt, std::nullopt, now_, now_));
}

TEST_F(LookPlannerTest, WithoutAnOrderEachLookBeginsAnew) {
    const auto found = [&](const std::string& last, bool full, bool anything_new) {
        LookPlanner::Look look = planner_.plan(now_);
        const Position position{0, last};
        EXPECT_TRUE(planner_.believes(std::nullopt, position, std::nullopt, now_, now_));
        planner_.looked({.began = now_, .ended = now_, .last = position, .full = full, .anything_new = anything_new});
        return look;
    };
    found("aaa", true, true);
    EXPECT_EQ(planner_.next_look(), now_);  // there may be more
    const LookPlanner::Look again = found("bbb", true, false);
    EXPECT_EQ(again.after, std::nullopt);
    EXPECT_TRUE(again.sees_rows_again);     // room for those in hand as well
    EXPECT_GT(planner_.next_look(), now_);  // the same again would only spin
    EXPECT_FALSE(again.sweep);
    found("aba", true, true);
    EXPECT_EQ(found("bbb", false, false).after, std::nullopt);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(found("bbb", true, false).after, std::nullopt);
    EXPECT_TRUE(planner_.quiet());
}

}  // namespace
}  // namespace deliverd::relay
