// When a relay reads its table from the beginning.
#include "relay/poll_planner.h"
#include "relay/testing/planner_fixture.h"

namespace deliverd::relay {
namespace {

TEST_F(PollPlannerTest, SweepsTakeATwentiethOfTheTime) {
    std::int64_t last = 0;
    Duration swept{};
    const Instant began = now_;
    while (now_ < began + std::chrono::seconds(60)) {
        const Instant before = now_;
        if (poll(last += 500, true, 60).sweep) swept += now_ - before;
        last += 500;
    }
    EXPECT_GT(swept, Duration::zero());
    EXPECT_LE(swept * PollPlanner::kSweepShare, std::chrono::seconds(61));
}

TEST_F(PollPlannerTest, EachPollNearTheEndStartsFromTheBeginningIfThatIsCheap) {
    sweep_cost_ = cost_;
    poll(10);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(poll(10 + i).after, std::nullopt);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(poll(30, false, 0.01, false).up_to, std::nullopt);
    poll(40, true, 0.01, true);
    EXPECT_EQ(poll(50).up_to, std::nullopt);
}

TEST_F(PollPlannerTest, SweepsNearTheEndMakeSafeWhatTheySaw) {
    sweep_cost_ = cost_;
    poll(10);
    for (int i = 0; i < 30; ++i, now_ += PollPlanner::kMarkInterval) EXPECT_TRUE(poll(10 + i).sweep);
    sweep_cost_ = std::chrono::milliseconds(50);
    EXPECT_TRUE(poll(50).sweep);
    EXPECT_TRUE(poll(51).sweep) << "one that happened to be slow says little";
    const PollPlanner::Poll next = poll(52);
    EXPECT_FALSE(next.sweep);
    EXPECT_GT(next.after, "20");
}

TEST_F(PollPlannerTest, APageOfASweepIsPaidForBeforeTheNext) {
    poll(500, true, 60);
    EXPECT_TRUE(poll(200, true, 60).sweep);
    Instant due = now_ + sweep_cost_ * (PollPlanner::kSweepShare - 1);
    cost_ = Duration::zero();
    poll(1000, true, 60);
    now_ = due - kMillisecond;
    EXPECT_FALSE(poll(1000, true, 60).sweep);
    now_ = due;
    EXPECT_EQ(poll(500, true, 60).after, "200");
    due = now_ + PollPlanner::kBetweenSweeps;  // that was all
    poll(1500, true, 60);
    now_ = due - kMillisecond;
    EXPECT_FALSE(poll(1500, true, 60).sweep);
    now_ = due;
    const PollPlanner::Poll next = poll(500, true, 60);
    EXPECT_TRUE(next.sweep);
    EXPECT_EQ(next.after, std::nullopt);
    EXPECT_EQ(next.up_to, "1500");
}

TEST_F(PollPlannerTest, BetweenTwoPagesOfASweepTheReadingGoesForward) {
    cost_ = sweep_cost_ = Duration::zero();
    poll(500, true, 60);
    EXPECT_TRUE(poll(200, true, 60).sweep);
    EXPECT_FALSE(poll(1000, true, 60).sweep);
    EXPECT_TRUE(poll(300, true, 60).sweep);
}

TEST_F(PollPlannerTest, ASweepIsOverWhenAPageIsNotFullOrHasNoRoom) {
    poll(500, true, 60);
    EXPECT_TRUE(poll(200, false, 60, false).sweep);
    EXPECT_EQ(planner_.next_poll(), now_) << "it took the place of a poll that goes forward";
    EXPECT_EQ(next_sweep(1000, true, 60).after, std::nullopt);
    EXPECT_EQ(next_sweep(0, true, 60).after, std::nullopt);
    EXPECT_EQ(next_sweep(1000, true, 60).after, std::nullopt);
}

TEST_F(PollPlannerTest, ASweepThatABacklogBeganEndsWhereThatWas) {
    poll(500, true, 60);
    poll(200, true, 60);  // the first page
    poll(1000);
    const PollPlanner::Poll page = next_sweep(1000);
    EXPECT_EQ(page.after, "200");
    EXPECT_EQ(page.up_to, "500");
}

TEST_F(PollPlannerTest, AQuietTableIsSweptWhenThatIsDueAndStaysQuiet) {
    poll(500, true, 60);
    poll(200, true, 60);  // the first page
    const Instant due = now_ + sweep_cost_ * (PollPlanner::kSweepShare - 1);
    while (!planner_.quiet()) poll(0);
    EXPECT_LT(now_, due);
    while (planner_.next_poll() < due) {
        now_ = planner_.next_poll();
        EXPECT_FALSE(poll(0).sweep);
        EXPECT_GT(planner_.next_poll(), now_);
    }
    EXPECT_EQ(planner_.next_poll(), due);
    now_ = due;
    EXPECT_TRUE(poll(300, true, 60, false).sweep);
    EXPECT_TRUE(planner_.quiet());
    poll(0);
    now_ += PollPlanner::kBetweenSweeps;
    EXPECT_TRUE(poll(400, true, 60, true).sweep);
    EXPECT_FALSE(planner_.quiet()) << "something was found";
}

TEST_F(PollPlannerTest, FullSweepsThatBringNothingNewLetItFallAsleep) {
    cost_ = sweep_cost_ = Duration::zero();
    poll(20);
    for (int i = 0; i < 50 && !planner_.quiet(); ++i, now_ += PollPlanner::kBetweenSweeps) {
        const PollPlanner::Poll poll = planner_.plan(now_);
        const bool nothing = poll.after == "20" || poll.up_to;
        PollPlanner::PollResult found;
        found.began = found.ended = now_;
        found.full = !nothing;
        if (!nothing) found.last = Position{20, "20"};
        EXPECT_TRUE(planner_.believes(std::nullopt, found.last, std::nullopt, now_, now_));
        planner_.polled(found);
    }
    EXPECT_TRUE(planner_.quiet());
}

TEST_F(PollPlannerTest, ASweepThatMeetsMoreThanItMayBringGoesBackThere) {
    sweep_cost_ = cost_;
    poll(10);
    poll(20);
    EXPECT_TRUE(poll(10, true, 0.01, false).sweep);
    const PollPlanner::Poll back = poll(20);
    EXPECT_EQ(back.after, "10");
    EXPECT_FALSE(back.sweep);
    const PollPlanner::Poll next = poll(20);
    EXPECT_TRUE(next.sweep);
    EXPECT_EQ(next.after, std::nullopt) << "a new one";
}

TEST_F(PollPlannerTest, APollThatWentBackSaysNothingAboutWhatAnOrdinaryOneCosts) {
    sweep_cost_ = cost_;
    poll(10);
    poll(20);
    poll(10, true, 0.01, false);
    cost_ = sweep_cost_ = std::chrono::seconds(10);
    EXPECT_EQ(poll(20).after, "10");
    EXPECT_TRUE(poll(20).sweep);
    EXPECT_TRUE(poll(20).sweep) << "one that happened to be slow says little";
    EXPECT_FALSE(poll(20).sweep);
}

TEST_F(PollPlannerTest, ASweepThatFailsIsPaidForToo) {
    SeededRandom random(1);
    poll(10);
    EXPECT_TRUE(planner_.plan(now_).sweep);
    planner_.failed(now_, now_, random);
    Instant due = now_ + PollPlanner::kBetweenSweeps;
    cost_ = Duration::zero();
    now_ = due - kMillisecond;
    EXPECT_FALSE(poll(10).sweep);
    now_ = due;
    EXPECT_TRUE(planner_.plan(now_).sweep);
    now_ += std::chrono::seconds(1);
    planner_.failed(now_ - std::chrono::seconds(1), now_, random);
    now_ += PollPlanner::kBetweenSweeps;
    EXPECT_TRUE(planner_.plan(now_).sweep) << "one that happened to be slow says little";
    now_ += std::chrono::seconds(1);
    planner_.failed(now_ - std::chrono::seconds(1), now_, random);
    due = now_ + std::chrono::seconds(1) * (PollPlanner::kSweepShare - 1);
    now_ = due - kMillisecond;
    EXPECT_FALSE(planner_.plan(now_).sweep);
    now_ = due;
    planner_.failed(now_ - std::chrono::seconds(1), now_, random);
    EXPECT_TRUE(planner_.plan(now_).sweep) << "what failed was no sweep";
}

TEST_F(PollPlannerTest, ASweepEndsWhereThePositionWasWhenItBegan) {
    poll(500, true, 60);
    const PollPlanner::Poll first = poll(200, true, 60);
    EXPECT_TRUE(first.sweep);
    EXPECT_EQ(first.up_to, "500");
    poll(1000, true, 60);
    PollPlanner::Poll next;
    for (std::int64_t last = 1500; !next.sweep; last += 500) next = poll(last, true, 60);
    EXPECT_EQ(next.after, "200");
    EXPECT_EQ(next.up_to, "500");
}

TEST_F(PollPlannerTest, ASweepThatFindsOnlyKnownRowsHoldsNothingUp) {
    sweep_cost_ = cost_;  // each poll near the end is one
    poll(20);
    poll(20);
    ASSERT_TRUE(poll(20, true, 0.01, false).sweep);
    PollPlanner::Poll next = poll(20, true, 0.01, false);
    if (next.up_to) next = poll(40, true);  // a page of the sweep
    EXPECT_EQ(next.after, "20");
}

}  // namespace
}  // namespace deliverd::relay
