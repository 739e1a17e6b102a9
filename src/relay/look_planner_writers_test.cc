// What open transactions mean for where a relay reads.
#include "relay/look_planner.h"
#include "relay/testing/planner_fixture.h"

namespace deliverd::relay {
namespace {

TEST_F(LookPlannerTest, ABacklogIsABatchOfWhichEvenTheYoungestIsOld) {
    const auto continues = [&](double age_seconds) {
        planner_.start_over();
        look(500, true, age_seconds);
        LookPlanner::Look next = look(500, true, age_seconds);
        if (next.sweep) next = look(500, true, age_seconds);
        return next.after == "500";
    };
    EXPECT_TRUE(continues(60));
    EXPECT_TRUE(continues(LookPlanner::kBacklogAgeSeconds));
    EXPECT_FALSE(continues(0.99));
    EXPECT_TRUE(continues(0)) << "the table does not say how old they are";
}

TEST_F(LookPlannerTest, TheEndOfTheTableIsAskedForWhereThereMayBeABacklog) {
    open_.emplace();
    look(10);
    EXPECT_TRUE(end_above_) << "nothing is known yet";
    look(20);
    EXPECT_FALSE(end_above_);
    planner_.start_over();
    look(20);
    EXPECT_TRUE(end_above_);
}

TEST_F(LookPlannerTest, LooksOftenForWritersThatWroteBeforeItFellAsleep) {
    open_ = {7};
    while (!planner_.quiet()) look(0);
    planner_.fell_asleep(now_);
    EXPECT_EQ(planner_.next_look(), now_);
    look(0);
    EXPECT_EQ(planner_.next_look(), now_ + LookPlanner::kWhileUnnotified);
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
    const Instant asleep_since = now_;
    planner_.fell_asleep(now_);
    look(0);
    now_ = asleep_since + LookPlanner::kLongestUnnotified - kMillisecond;
    look(0);
    EXPECT_EQ(planner_.next_look() - now_, LookPlanner::kWhileUnnotified);
    now_ = asleep_since + LookPlanner::kLongestUnnotified;
    look(0);
    EXPECT_GT(planner_.next_look() - now_, LookPlanner::kWhileUnnotified);
}

TEST_F(LookPlannerTest, ALookFromBeforeItFellAsleepDoesNotSayWhoWroteBefore) {
    while (!planner_.quiet()) look(0);
    planner_.fell_asleep(now_);
    planner_.saw_writers({{7}, 100}, now_ - kMillisecond);
    open_ = {9};
    look(0);
    EXPECT_EQ(planner_.next_look(), now_ + LookPlanner::kWhileUnnotified);
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

TEST_F(LookPlannerTest, BeginsAtTheBeginningWhileATransactionIsYoungThatMayHaveWrittenAnywhere) {
    open_ = {7};
    sweep_cost_ = LookPlanner::kLateWindow;
    const Instant seen = now_;
    look(10);
    look_for(3 * LookPlanner::kLateWindow, 20);
    now_ = seen + LookPlanner::kWatchedClosely;
    const LookPlanner::Look last = look(30);
    EXPECT_FALSE(last.sweep);
    EXPECT_EQ(last.after, std::nullopt);
    EXPECT_EQ(look(30).after, "20");
}

TEST_F(LookPlannerTest, ATransactionCannotHaveWrittenWhatWasSeenLongBeforeTheLastLookWithoutIt) {
    open_.emplace();
    come_to_the_end();
    now_ += LookPlanner::kMarkInterval;
    look(20);
    now_ += LookPlanner::kLateWindow;
    look(30);
    open_ = {7};
    now_ += kMillisecond;
    look(40);
    open_.emplace();
    EXPECT_EQ(look(50).after, "20");
    EXPECT_TRUE(believed_);
}

TEST_F(LookPlannerTest, ALookWithoutRoomIsRepeatedFromWhereItBegan) {
    open_.emplace();
    come_to_the_end();
    look_for(2 * LookPlanner::kLateWindow, 10);
    open_ = {7};
    look(20);
    look_for(3 * LookPlanner::kLateWindow, 30);
    open_ = {7, 8};
    look(40);
    look_for(LookPlanner::kLateWindow / 2, 40);
    open_ = {7};
    EXPECT_EQ(look(0, true).after, "10") << "because of 7";
    EXPECT_EQ(look(40).after, "10") << "though 8, which ended, wrote behind 30";
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
    look(1000, true, 60);
    EXPECT_EQ(look(1100, true, 60).after, "1000");
    EXPECT_NE(look(1200, true, 60).after, "1100") << "behind the end as it was";
}

TEST_F(LookPlannerTest, IdsAreOldKLateWindowAfterTheEndWasSeenThere) {
    open_.emplace();
    end_ = 1000;
    look(500, true, 60);
    const Instant seen = now_;
    end_.reset();
    look(600, true, 60);  // the first sweep
    now_ = seen + LookPlanner::kLateWindow;
    look(700, true, 60);
    EXPECT_EQ(look(800, true, 60).after, "700");
}

TEST_F(LookPlannerTest, RowsWrittenDuringATransactionAreBelievedUpToTheEndThatWasSeenWithIt) {
    open_ = {7};
    end_ = 1000;
    look(500, true, 60);
    now_ += LookPlanner::kLateWindow;
    look(500, true, 60);  // the first sweep
    look(600, true, 60);
    end_ = 2000;
    EXPECT_EQ(look(700, true, 60).after, "600");
    EXPECT_EQ(end_above_, 1000);
    end_.reset();
    open_.emplace();
    EXPECT_EQ(look(1500, true, 60).after, "700");
    EXPECT_TRUE(believed_);
    now_ += LookPlanner::kLateWindow;
    look(2000, true, 60);
    EXPECT_TRUE(believed_);
    look(2001, true, 60);
    EXPECT_FALSE(believed_);
}

TEST_F(LookPlannerTest, ThePagesOfASweepAreBelievedWhoeverHasEnded) {
    open_ = {7};
    end_ = 1000;
    look(500, true, 60);
    now_ += LookPlanner::kLateWindow;
    look(600, true, 60);  // the first sweep
    const Instant due = now_ + (sweep_cost_ - cost_) * (LookPlanner::kSweepShare - 1);
    look(700, true, 60);
    open_.emplace();
    now_ = due;
    EXPECT_EQ(look(300, true, 60).up_to, "700");
    EXPECT_TRUE(believed_);
    EXPECT_EQ(look(800, true, 60).after, "700");
}

class TwoTransactions : public LookPlannerTest {
protected:
    void expect_going_back_for_the_earlier(std::uint64_t stays_open);
};

/// 6 may have written anywhere, and 7 only behind what was seen before it began.
void TwoTransactions::expect_going_back_for_the_earlier(std::uint64_t stays_open) {
    open_ = {6};
    end_ = 10'000;
    look(500, true, 60);
    end_.reset();
    now_ += LookPlanner::kLateWindow;
    look(600, true, 60);  // the first sweep
    look(700, true, 60);
    now_ += 2 * LookPlanner::kLateWindow;
    look(800, true, 60);
    open_ = {6, 7};
    look(900, true, 60);
    open_ = {stays_open};
    look(1000, true, 60);
    open_.emplace();
    look(1100, true, 60);
    EXPECT_TRUE(believed_);
    look(10'500, true, 60);
    EXPECT_FALSE(believed_);
    EXPECT_EQ(look(500, true, 60).after, std::nullopt);
    EXPECT_TRUE(believed_);
}

TEST_F(TwoTransactions, InABacklogItGoesBackForTheEarlierOneIfThatEndedFirst) {
    expect_going_back_for_the_earlier(7);
}

TEST_F(TwoTransactions, InABacklogItGoesBackForTheEarlierOneIfThatEndedLast) {
    expect_going_back_for_the_earlier(6);
}

TEST_F(LookPlannerTest, ALookFromTheBeginningIsEnoughForATransactionThatEnded) {
    open_ = {7};
    end_ = 1000;
    look(500, true, 60);
    planner_.start_over();
    open_.emplace();
    end_.reset();
    look(400, true, 60);
    EXPECT_TRUE(believed_);
    now_ += LookPlanner::kLateWindow;
    look(900, true, 60);  // the first sweep
    look(950, true, 60);
    EXPECT_EQ(look(1500, true, 60).after, "950");
    EXPECT_TRUE(believed_) << "7 is forgotten";
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

}  // namespace
}  // namespace deliverd::relay
