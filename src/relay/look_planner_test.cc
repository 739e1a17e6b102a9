#include "relay/look_planner.h"

#include <gtest/gtest.h>

namespace deliverd::relay {
namespace {

constexpr Duration kBusy = std::chrono::milliseconds(2);
constexpr Duration kIdle = std::chrono::seconds(1);
constexpr Duration kMillisecond = std::chrono::milliseconds(1);

class LookPlannerTest : public ::testing::Test {
protected:
    /// A look at `now_` that takes `cost_` and ends behind row `last` (0: it found none).
    LookPlanner::Look look(std::int64_t last, bool full = false, double age_seconds = 0.01, bool anything_new = true) {
        const LookPlanner::Look look = planner_.plan(now_);
        LookPlanner::LookResult found;
        found.began = now_;
        now_ += look.sweep ? sweep_cost_ : cost_;
        found.ended = now_;
        if (last > 0) found.last = Position{last, std::to_string(last)};
        found.full = full;
        found.youngest_seconds = age_seconds;
        found.anything_new = anything_new && last > 0;
        end_above_ = look.end_above;
        const auto writers = open_ ? std::optional(store::OpenWriters{*open_, 100}) : std::nullopt;
        if (writers) planner_.saw_writers(*writers, found.began);
        believed_ = planner_.believes(writers, found.last, end_, found.began, now_);
        found.asked = believed_;
        planner_.looked(found);
        return look;
    }
    void look_for(Duration span, std::int64_t last) {
        for (const Instant end = now_ + span; now_ < end; now_ += LookPlanner::kMarkInterval) look(last);
    }

    LookPlanner planner_{kBusy, kIdle};
    Instant now_ = Instant(std::chrono::hours(1));
    Duration cost_ = kMillisecond;
    Duration sweep_cost_ = std::chrono::milliseconds(50);  // dear: sweeps are rare
    std::optional<std::vector<std::uint64_t>> open_;       // transactions that a look sees open
    std::optional<std::int64_t> end_;                      // of the table, that a look tells
    std::optional<std::int64_t> end_above_;                // what the last look asked
    bool believed_ = true;
};

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

TEST_F(LookPlannerTest, LooksOftenForWritersThatWroteBeforeItFellAsleep) {
    open_ = {7};
    while (!planner_.quiet()) look(0);
    planner_.fell_asleep(now_);
    EXPECT_EQ(planner_.next_look(), now_);
    look(0);
    for (int i = 0; i < 20; ++i) {
        now_ = planner_.next_look();
        look(0);
        ASSERT_LE(planner_.next_look() - now_, LookPlanner::kWhileUnnotified);
    }
    open_ = {8};  // it knows that the relay sleeps
    look(0);
    EXPECT_GT(planner_.next_look() - now_, LookPlanner::kWhileUnnotified);
}

TEST_F(LookPlannerTest, DoesNotLookOftenForAWriterThatStaysOpenForLong) {
    open_ = {7};
    while (!planner_.quiet()) look(0);
    planner_.fell_asleep(now_);
    look(0);
    now_ += LookPlanner::kLongestUnnotified;
    look(0);
    EXPECT_GT(planner_.next_look() - now_, LookPlanner::kWhileUnnotified);
}

TEST_F(LookPlannerTest, LooksWhenARetryComesDue) {
    cost_ = sweep_cost_ = Duration::zero();
    for (int i = 0; i < 20; ++i) look(0);
    const Instant due = now_ + std::chrono::milliseconds(30);
    planner_.due_at(due);
    EXPECT_EQ(planner_.next_look(), due);
    now_ = due;
    look(0);
    EXPECT_EQ(planner_.next_look(), now_ + kIdle);
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

TEST_F(LookPlannerTest, BeginsBeforeWhatAYoungTransactionCanHaveWritten) {
    open_.emplace();
    look_for(std::chrono::seconds(5), 10);
    open_ = {7};
    look(20);
    look_for(LookPlanner::kWatchedClosely / 2, 30);
    open_.emplace();
    EXPECT_EQ(look(40).after, "10") << "7 wrote behind 10, wherever the safe position is";
    EXPECT_TRUE(believed_);
    look_for(2 * LookPlanner::kLateWindow, 40);
    EXPECT_EQ(look(41).after, "40") << "7 is forgotten";
}

TEST_F(LookPlannerTest, ALookWithoutRoomDoesNotCoverATransactionThatEnded) {
    open_.emplace();
    look_for(std::chrono::seconds(5), 10);
    open_ = {7};
    look(20);
    look_for(LookPlanner::kWatchedClosely / 2, 30);
    open_.emplace();
    EXPECT_EQ(look(0, true).after, "10") << "7 wrote behind 10";
    EXPECT_EQ(look(15, true).after, "10") << "nothing of it was seen";
    EXPECT_EQ(look(40).after, "15");
    look_for(2 * LookPlanner::kLateWindow, 40);
    EXPECT_EQ(look(41).after, "40");
}

TEST_F(LookPlannerTest, GoesBackWhenATransactionEndsThatWasOpenForLong) {
    open_.emplace();
    look_for(std::chrono::seconds(5), 10);
    open_ = {7, 8};
    look(20);
    look_for(2 * LookPlanner::kWatchedClosely, 30);
    EXPECT_EQ(look(30).after, "30") << "not worth going back to as long as it is open";
    open_ = {8};
    look(40);
    EXPECT_FALSE(believed_) << "what 7 wrote may come before 40";
    EXPECT_EQ(planner_.next_look(), now_);
    EXPECT_EQ(look(25, true).after, "10");
    EXPECT_TRUE(believed_);
    EXPECT_EQ(look(40).after, "25") << "and on without a gap until it is where it was";
    look_for(2 * LookPlanner::kLateWindow, 40);
    EXPECT_EQ(look(41).after, "40");
    EXPECT_TRUE(believed_);
}

TEST_F(LookPlannerTest, ATransactionMayHaveDrawnItsIdAWhileBeforeItIsSeen) {
    open_.emplace();
    look_for(std::chrono::seconds(5), 10);
    look(20);
    look(30);
    open_ = {7};  // it drew 15, and got its number only now
    look(40);
    look_for(2 * LookPlanner::kWatchedClosely, 50);
    open_.emplace();
    look(60);
    EXPECT_FALSE(believed_);
    EXPECT_EQ(look(60).after, "10");
}

TEST_F(LookPlannerTest, OldRowsAreABacklogOnceTheirIdsAreKnownToBeOld) {
    open_.emplace();
    end_ = 1000;
    look(500, true, 60);
    EXPECT_TRUE(end_above_.has_value());
    end_.reset();
    look(600, true, 60);  // the first sweep
    EXPECT_EQ(look(700, true, 60).after, std::nullopt) << "whose id is old may have been drawn a moment ago";
    EXPECT_FALSE(end_above_.has_value()) << "asked once";
    now_ += LookPlanner::kLateWindow;
    while (look(800, true, 60).sweep) {
    }
    EXPECT_EQ(look(900, true, 60).after, "800");
    EXPECT_EQ(end_above_, 1000);
    look(1100, true, 60);
    EXPECT_NE(look(1200, true, 60).after, "1100") << "behind the end as it was";
}

TEST_F(LookPlannerTest, InABacklogRowsWrittenDuringATransactionAreBelieved) {
    open_ = {7};
    end_ = 1000;
    look(500, true, 60);
    end_.reset();
    now_ += LookPlanner::kLateWindow;
    look(600, true, 60);  // the first sweep
    while (look(700, true, 60).sweep) {
    }
    open_.emplace();
    LookPlanner::Look next = look(1000, true, 60);
    while (next.sweep) next = look(1000, true, 60);
    EXPECT_EQ(next.after, "700");
    EXPECT_TRUE(believed_) << "1000 was there while 7 was open: its writer did not wait for 7";
    while (look(1500, true, 60).sweep) EXPECT_TRUE(believed_);
    EXPECT_FALSE(believed_) << "however long ago its transaction began";
    EXPECT_EQ(look(500, true, 60).after, std::nullopt);
    EXPECT_TRUE(believed_);
}

TEST_F(LookPlannerTest, BehindABacklogItGoesBackOnceForAllThatHaveEnded) {
    open_.emplace();
    end_ = 10'000;
    look(500, true, 60);
    now_ += LookPlanner::kLateWindow;
    // Each look sees another writer, which has ended by the next one.
    for (std::int64_t last = 1000; last <= 9000; last += 500) {
        open_ = {static_cast<std::uint64_t>(last)};
        while (look(last, true, 60).up_to) {
        }
        EXPECT_TRUE(believed_) << last;
    }
    open_.emplace();
    look(10'500, true, 60);
    EXPECT_FALSE(believed_) << "behind the end as it was when the first of them was open";
    EXPECT_EQ(look(9500, true, 60).after, "500") << "the first of them came kLateWindow after that";
    EXPECT_TRUE(believed_);
    int thrown_away = 0;
    for (std::int64_t last = 10'000; last <= 20'000; last += 500) {
        look(last, true, 60);
        if (!believed_) ++thrown_away;
    }
    EXPECT_EQ(thrown_away, 0) << "that was for all of them";
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
        planner_.looked(
            {.began = now_, .ended = now_, .last = Position{0, last}, .full = full, .anything_new = anything_new});
        return look;
    };
    found("aaa", true, true);
    EXPECT_EQ(planner_.next_look(), now_);  // there may be more
    const LookPlanner::Look again = found("bbb", true, false);
    EXPECT_EQ(again.after, std::nullopt);
    EXPECT_TRUE(again.sees_rows_again);     // room for those in hand as well
    EXPECT_GT(planner_.next_look(), now_);  // the same again would only spin
}

}  // namespace
}  // namespace deliverd::relay
