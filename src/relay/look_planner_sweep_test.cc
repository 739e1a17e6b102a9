// When a relay reads its table from the beginning.
#include "relay/look_planner.h"
#include "relay/testing/planner_fixture.h"

namespace deliverd::relay {
namespace {

TEST_F(LookPlannerTest, SweepsTakeATwentiethOfTheTime) {
    std::int64_t last = 0;
    Duration swept{};
    const Instant began = now_;
    while (now_ < began + std::chrono::seconds(60)) {
        const Instant before = now_;
        if (look(last += 500, true, 60).sweep) swept += now_ - before;
        last += 500;
    }
    EXPECT_GT(swept, Duration::zero());
    EXPECT_LE(swept * LookPlanner::kSweepShare, std::chrono::seconds(61));
}

TEST_F(LookPlannerTest, EachLookNearTheEndStartsFromTheBeginningIfThatIsCheap) {
    sweep_cost_ = cost_;
    look(10);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(look(10 + i).after, std::nullopt);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(look(30, false, 0.01, false).up_to, std::nullopt);
    look(40, true, 0.01, true);
    EXPECT_EQ(look(50).up_to, std::nullopt);
}

TEST_F(LookPlannerTest, SweepsNearTheEndMakeSafeWhatTheySaw) {
    sweep_cost_ = cost_;
    look(10);
    for (int i = 0; i < 30; ++i, now_ += LookPlanner::kMarkInterval) EXPECT_TRUE(look(10 + i).sweep);
    sweep_cost_ = std::chrono::milliseconds(50);
    EXPECT_TRUE(look(50).sweep);
    EXPECT_TRUE(look(51).sweep) << "one that happened to be slow says little";
    const LookPlanner::Look next = look(52);
    EXPECT_FALSE(next.sweep);
    EXPECT_GT(next.after, "20");
}

TEST_F(LookPlannerTest, APageOfASweepIsPaidForBeforeTheNext) {
    look(500, true, 60);
    EXPECT_TRUE(look(200, true, 60).sweep);
    Instant due = now_ + sweep_cost_ * (LookPlanner::kSweepShare - 1);
    cost_ = Duration::zero();
    look(1000, true, 60);
    now_ = due - kMillisecond;
    EXPECT_FALSE(look(1000, true, 60).sweep);
    now_ = due;
    EXPECT_EQ(look(500, true, 60).after, "200");
    due = now_ + LookPlanner::kBetweenSweeps;  // that was all
    look(1500, true, 60);
    now_ = due - kMillisecond;
    EXPECT_FALSE(look(1500, true, 60).sweep);
    now_ = due;
    const LookPlanner::Look next = look(500, true, 60);
    EXPECT_TRUE(next.sweep);
    EXPECT_EQ(next.after, std::nullopt);
    EXPECT_EQ(next.up_to, "1500");
}

TEST_F(LookPlannerTest, BetweenTwoPagesOfASweepTheReadingGoesForward) {
    cost_ = sweep_cost_ = Duration::zero();
    look(500, true, 60);
    EXPECT_TRUE(look(200, true, 60).sweep);
    EXPECT_FALSE(look(1000, true, 60).sweep);
    EXPECT_TRUE(look(300, true, 60).sweep);
}

TEST_F(LookPlannerTest, ASweepIsOverWhenAPageIsNotFullOrHasNoRoom) {
    look(500, true, 60);
    EXPECT_TRUE(look(200, false, 60, false).sweep);
    EXPECT_EQ(planner_.next_look(), now_) << "it took the place of a look that goes forward";
    EXPECT_EQ(next_sweep(1000, true, 60).after, std::nullopt);
    EXPECT_EQ(next_sweep(0, true, 60).after, std::nullopt);
    EXPECT_EQ(next_sweep(1000, true, 60).after, std::nullopt);
}

TEST_F(LookPlannerTest, ASweepThatABacklogBeganEndsWhereThatWas) {
    look(500, true, 60);
    look(200, true, 60);  // the first page
    look(1000);
    const LookPlanner::Look page = next_sweep(1000);
    EXPECT_EQ(page.after, "200");
    EXPECT_EQ(page.up_to, "500");
}

TEST_F(LookPlannerTest, AQuietTableIsSweptWhenThatIsDueAndStaysQuiet) {
    look(500, true, 60);
    look(200, true, 60);  // the first page
    const Instant due = now_ + sweep_cost_ * (LookPlanner::kSweepShare - 1);
    while (!planner_.quiet()) look(0);
    EXPECT_LT(now_, due);
    while (planner_.next_look() < due) {
        now_ = planner_.next_look();
        EXPECT_FALSE(look(0).sweep);
        EXPECT_GT(planner_.next_look(), now_);
    }
    EXPECT_EQ(planner_.next_look(), due);
    now_ = due;
    EXPECT_TRUE(look(300, true, 60, false).sweep);
    EXPECT_TRUE(planner_.quiet());
    look(0);
    now_ += LookPlanner::kBetweenSweeps;
    EXPECT_TRUE(look(400, true, 60, true).sweep);
    EXPECT_FALSE(planner_.quiet()) << "something was found";
}

TEST_F(LookPlannerTest, FullSweepsThatBringNothingNewLetItFallAsleep) {
    cost_ = sweep_cost_ = Duration::zero();
    look(20);
    for (int i = 0; i < 50 && !planner_.quiet(); ++i, now_ += LookPlanner::kBetweenSweeps) {
        const LookPlanner::Look look = planner_.plan(now_);
        const bool nothing = look.after == "20" || look.up_to;
        LookPlanner::LookResult found;
        found.began = found.ended = now_;
        found.full = !nothing;
        if (!nothing) found.last = Position{20, "20"};
        EXPECT_TRUE(planner_.believes(std::nullopt, found.last, std::nullopt, now_, now_));
        planner_.looked(found);
    }
    EXPECT_TRUE(planner_.quiet());
}

TEST_F(LookPlannerTest, ASweepThatMeetsMoreThanItMayBringGoesBackThere) {
    sweep_cost_ = cost_;
    look(10);
    look(20);
    EXPECT_TRUE(look(10, true, 0.01, false).sweep);
    const LookPlanner::Look back = look(20);
    EXPECT_EQ(back.after, "10");
    EXPECT_FALSE(back.sweep);
    const LookPlanner::Look next = look(20);
    EXPECT_TRUE(next.sweep);
    EXPECT_EQ(next.after, std::nullopt) << "a new one";
}

TEST_F(LookPlannerTest, ALookThatWentBackSaysNothingAboutWhatAnOrdinaryOneCosts) {
    sweep_cost_ = cost_;
    look(10);
    look(20);
    look(10, true, 0.01, false);
    cost_ = sweep_cost_ = std::chrono::seconds(10);
    EXPECT_EQ(look(20).after, "10");
    EXPECT_TRUE(look(20).sweep);
    EXPECT_TRUE(look(20).sweep) << "one that happened to be slow says little";
    EXPECT_FALSE(look(20).sweep);
}

TEST_F(LookPlannerTest, ASweepThatFailsIsPaidForToo) {
    SeededRandom random(1);
    look(10);
    EXPECT_TRUE(planner_.plan(now_).sweep);
    planner_.failed(now_, now_, random);
    Instant due = now_ + LookPlanner::kBetweenSweeps;
    cost_ = Duration::zero();
    now_ = due - kMillisecond;
    EXPECT_FALSE(look(10).sweep);
    now_ = due;
    EXPECT_TRUE(planner_.plan(now_).sweep);
    now_ += std::chrono::seconds(1);
    planner_.failed(now_ - std::chrono::seconds(1), now_, random);
    now_ += LookPlanner::kBetweenSweeps;
    EXPECT_TRUE(planner_.plan(now_).sweep) << "one that happened to be slow says little";
    now_ += std::chrono::seconds(1);
    planner_.failed(now_ - std::chrono::seconds(1), now_, random);
    due = now_ + std::chrono::seconds(1) * (LookPlanner::kSweepShare - 1);
    now_ = due - kMillisecond;
    EXPECT_FALSE(planner_.plan(now_).sweep);
    now_ = due;
    planner_.failed(now_ - std::chrono::seconds(1), now_, random);
    EXPECT_TRUE(planner_.plan(now_).sweep) << "what failed was no sweep";
}

TEST_F(LookPlannerTest, ASweepEndsWhereThePositionWasWhenItBegan) {
    look(500, true, 60);
    const LookPlanner::Look first = look(200, true, 60);
    EXPECT_TRUE(first.sweep);
    EXPECT_EQ(first.up_to, "500");
    look(1000, true, 60);
    LookPlanner::Look next;
    for (std::int64_t last = 1500; !next.sweep; last += 500) next = look(last, true, 60);
    EXPECT_EQ(next.after, "200");
    EXPECT_EQ(next.up_to, "500");
}

TEST_F(LookPlannerTest, ASweepThatFindsOnlyKnownRowsHoldsNothingUp) {
    sweep_cost_ = cost_;  // each look near the end is one
    look(20);
    look(20);
    ASSERT_TRUE(look(20, true, 0.01, false).sweep);
    LookPlanner::Look next = look(20, true, 0.01, false);
    if (next.up_to) next = look(40, true);  // a page of the sweep
    EXPECT_EQ(next.after, "20");
}

}  // namespace
}  // namespace deliverd::relay
