// What open transactions mean for where a relay reads.
#include "relay/poll_planner.h"
#include "relay/testing/planner_fixture.h"

namespace deliverd::relay {
namespace {

TEST_F(PollPlannerTest, ABacklogIsABatchOfWhichEvenTheYoungestIsOld) {
    const auto continues = [&](double age_seconds) {
        planner_.start_over();
        poll(500, true, age_seconds);
        PollPlanner::Poll next = poll(500, true, age_seconds);
        if (next.sweep) next = poll(500, true, age_seconds);
        return next.after == "500";
    };
    EXPECT_TRUE(continues(60));
    EXPECT_TRUE(continues(PollPlanner::kBacklogAgeSeconds));
    EXPECT_FALSE(continues(0.99));
    EXPECT_TRUE(continues(0)) << "the table does not say how old they are";
}

TEST_F(PollPlannerTest, TheEndOfTheTableIsAskedForWhereThereMayBeABacklog) {
    open_.emplace();
    poll(10);
    EXPECT_TRUE(end_above_) << "nothing is known yet";
    poll(20);
    EXPECT_FALSE(end_above_);
    planner_.start_over();
    poll(20);
    EXPECT_TRUE(end_above_);
}

TEST_F(PollPlannerTest, PollsOftenForWritersThatWroteBeforeItFellAsleep) {
    open_ = {7};
    while (!planner_.quiet()) poll(0);
    planner_.fell_asleep(now_);
    EXPECT_EQ(planner_.next_poll(), now_);
    poll(0);
    EXPECT_EQ(planner_.next_poll(), now_ + PollPlanner::kWhileUnnotified);
    for (int i = 0; i < 20; ++i) {
        now_ = planner_.next_poll();
        poll(0);
        ASSERT_LE(planner_.next_poll() - now_, PollPlanner::kWhileUnnotified);
    }
    open_ = {8};  // it knows that the relay sleeps
    poll(0);
    EXPECT_GT(planner_.next_poll() - now_, PollPlanner::kWhileUnnotified);
}

TEST_F(PollPlannerTest, DoesNotPollOftenForAWriterThatStaysOpenForLong) {
    open_ = {7};
    while (!planner_.quiet()) poll(0);
    const Instant asleep_since = now_;
    planner_.fell_asleep(now_);
    poll(0);
    now_ = asleep_since + PollPlanner::kLongestUnnotified - kMillisecond;
    poll(0);
    EXPECT_EQ(planner_.next_poll() - now_, PollPlanner::kWhileUnnotified);
    now_ = asleep_since + PollPlanner::kLongestUnnotified;
    poll(0);
    EXPECT_GT(planner_.next_poll() - now_, PollPlanner::kWhileUnnotified);
}

TEST_F(PollPlannerTest, APollFromBeforeItFellAsleepDoesNotSayWhoWroteBefore) {
    while (!planner_.quiet()) poll(0);
    planner_.fell_asleep(now_);
    planner_.saw_writers({{7}, 100}, now_ - kMillisecond);
    open_ = {9};
    poll(0);
    EXPECT_EQ(planner_.next_poll(), now_ + PollPlanner::kWhileUnnotified);
}

TEST_F(PollPlannerTest, BeginsBeforeWhatAYoungTransactionCanHaveWritten) {
    open_.emplace();
    poll_for(std::chrono::seconds(5), 10);
    open_ = {7};
    poll(20);
    poll_for(PollPlanner::kWatchedClosely / 2, 30);
    open_.emplace();
    EXPECT_EQ(poll(40).after, "10") << "7 wrote behind 10, wherever the safe position is";
    EXPECT_TRUE(believed_);
    poll_for(2 * PollPlanner::kLateWindow, 40);
    EXPECT_EQ(poll(41).after, "40") << "7 is forgotten";
}

TEST_F(PollPlannerTest, BeginsAtTheBeginningWhileATransactionIsYoungThatMayHaveWrittenAnywhere) {
    open_ = {7};
    sweep_cost_ = PollPlanner::kLateWindow;
    const Instant seen = now_;
    poll(10);
    poll_for(3 * PollPlanner::kLateWindow, 20);
    now_ = seen + PollPlanner::kWatchedClosely;
    const PollPlanner::Poll last = poll(30);
    EXPECT_FALSE(last.sweep);
    EXPECT_EQ(last.after, std::nullopt);
    EXPECT_EQ(poll(30).after, "20");
}

TEST_F(PollPlannerTest, ATransactionCannotHaveWrittenWhatWasSeenLongBeforeTheLastPollWithoutIt) {
    open_.emplace();
    come_to_the_end();
    now_ += PollPlanner::kMarkInterval;
    poll(20);
    now_ += PollPlanner::kLateWindow;
    poll(30);
    open_ = {7};
    now_ += kMillisecond;
    poll(40);
    open_.emplace();
    EXPECT_EQ(poll(50).after, "20");
    EXPECT_TRUE(believed_);
}

TEST_F(PollPlannerTest, APollWithoutRoomIsRepeatedFromWhereItBegan) {
    open_.emplace();
    come_to_the_end();
    poll_for(2 * PollPlanner::kLateWindow, 10);
    open_ = {7};
    poll(20);
    poll_for(3 * PollPlanner::kLateWindow, 30);
    open_ = {7, 8};
    poll(40);
    poll_for(PollPlanner::kLateWindow / 2, 40);
    open_ = {7};
    EXPECT_EQ(poll(0, true).after, "10") << "because of 7";
    EXPECT_EQ(poll(40).after, "10") << "though 8, which ended, wrote behind 30";
}

TEST_F(PollPlannerTest, APollWithoutRoomDoesNotCoverATransactionThatEnded) {
    open_.emplace();
    poll_for(std::chrono::seconds(5), 10);
    open_ = {7};
    poll(20);
    poll_for(PollPlanner::kWatchedClosely / 2, 30);
    open_.emplace();
    EXPECT_EQ(poll(0, true).after, "10") << "7 wrote behind 10";
    EXPECT_EQ(poll(15, true).after, "10") << "nothing of it was seen";
    EXPECT_EQ(poll(40).after, "15");
    poll_for(2 * PollPlanner::kLateWindow, 40);
    EXPECT_EQ(poll(41).after, "40");
}

TEST_F(PollPlannerTest, GoesBackWhenATransactionEndsThatWasOpenForLong) {
    open_.emplace();
    poll_for(std::chrono::seconds(5), 10);
    open_ = {7, 8};
    poll(20);
    poll_for(2 * PollPlanner::kWatchedClosely, 30);
    EXPECT_EQ(poll(30).after, "30") << "not worth going back to as long as it is open";
    open_ = {8};
    poll(40);
    EXPECT_FALSE(believed_) << "what 7 wrote may come before 40";
    EXPECT_EQ(planner_.next_poll(), now_);
    EXPECT_EQ(poll(25, true).after, "10");
    EXPECT_TRUE(believed_);
    EXPECT_EQ(poll(40).after, "25") << "and on without a gap until it is where it was";
    poll_for(2 * PollPlanner::kLateWindow, 40);
    EXPECT_EQ(poll(41).after, "40");
    EXPECT_TRUE(believed_);
}

TEST_F(PollPlannerTest, ATransactionMayHaveDrawnItsIdAWhileBeforeItIsSeen) {
    open_.emplace();
    poll_for(std::chrono::seconds(5), 10);
    poll(20);
    poll(30);
    open_ = {7};  // it drew 15, and got its number only now
    poll(40);
    poll_for(2 * PollPlanner::kWatchedClosely, 50);
    open_.emplace();
    poll(60);
    EXPECT_FALSE(believed_);
    EXPECT_EQ(poll(60).after, "10");
}

TEST_F(PollPlannerTest, OldRowsAreABacklogOnceTheirIdsAreKnownToBeOld) {
    open_.emplace();
    end_ = 1000;
    poll(500, true, 60);
    EXPECT_TRUE(end_above_.has_value());
    end_.reset();
    poll(600, true, 60);  // the first sweep
    EXPECT_EQ(poll(700, true, 60).after, std::nullopt) << "whose id is old may have been drawn a moment ago";
    EXPECT_FALSE(end_above_.has_value()) << "asked once";
    now_ += PollPlanner::kLateWindow;
    while (poll(800, true, 60).sweep) {
    }
    EXPECT_EQ(poll(900, true, 60).after, "800");
    EXPECT_EQ(end_above_, 1000);
    poll(1000, true, 60);
    EXPECT_EQ(poll(1100, true, 60).after, "1000");
    EXPECT_NE(poll(1200, true, 60).after, "1100") << "behind the end as it was";
}

TEST_F(PollPlannerTest, IdsAreOldKLateWindowAfterTheEndWasSeenThere) {
    open_.emplace();
    end_ = 1000;
    poll(500, true, 60);
    const Instant seen = now_;
    end_.reset();
    poll(600, true, 60);  // the first sweep
    now_ = seen + PollPlanner::kLateWindow;
    poll(700, true, 60);
    EXPECT_EQ(poll(800, true, 60).after, "700");
}

TEST_F(PollPlannerTest, RowsWrittenDuringATransactionAreBelievedUpToTheEndThatWasSeenWithIt) {
    open_ = {7};
    end_ = 1000;
    poll(500, true, 60);
    now_ += PollPlanner::kLateWindow;
    poll(500, true, 60);  // the first sweep
    poll(600, true, 60);
    end_ = 2000;
    EXPECT_EQ(poll(700, true, 60).after, "600");
    EXPECT_EQ(end_above_, 1000);
    end_.reset();
    open_.emplace();
    EXPECT_EQ(poll(1500, true, 60).after, "700");
    EXPECT_TRUE(believed_);
    now_ += PollPlanner::kLateWindow;
    poll(2000, true, 60);
    EXPECT_TRUE(believed_);
    poll(2001, true, 60);
    EXPECT_FALSE(believed_);
}

TEST_F(PollPlannerTest, ThePagesOfASweepAreBelievedWhoeverHasEnded) {
    open_ = {7};
    end_ = 1000;
    poll(500, true, 60);
    now_ += PollPlanner::kLateWindow;
    poll(600, true, 60);  // the first sweep
    const Instant due = now_ + (sweep_cost_ - cost_) * (PollPlanner::kSweepShare - 1);
    poll(700, true, 60);
    open_.emplace();
    now_ = due;
    EXPECT_EQ(poll(300, true, 60).up_to, "700");
    EXPECT_TRUE(believed_);
    EXPECT_EQ(poll(800, true, 60).after, "700");
}

class TwoTransactions : public PollPlannerTest {
protected:
    void expect_going_back_for_the_earlier(std::uint64_t stays_open);
};

/// 6 may have written anywhere, and 7 only behind what was seen before it began.
void TwoTransactions::expect_going_back_for_the_earlier(std::uint64_t stays_open) {
    open_ = {6};
    end_ = 10'000;
    poll(500, true, 60);
    end_.reset();
    now_ += PollPlanner::kLateWindow;
    poll(600, true, 60);  // the first sweep
    poll(700, true, 60);
    now_ += 2 * PollPlanner::kLateWindow;
    poll(800, true, 60);
    open_ = {6, 7};
    poll(900, true, 60);
    open_ = {stays_open};
    poll(1000, true, 60);
    open_.emplace();
    poll(1100, true, 60);
    EXPECT_TRUE(believed_);
    poll(10'500, true, 60);
    EXPECT_FALSE(believed_);
    EXPECT_EQ(poll(500, true, 60).after, std::nullopt);
    EXPECT_TRUE(believed_);
}

TEST_F(TwoTransactions, InABacklogItGoesBackForTheEarlierOneIfThatEndedFirst) {
    expect_going_back_for_the_earlier(7);
}

TEST_F(TwoTransactions, InABacklogItGoesBackForTheEarlierOneIfThatEndedLast) {
    expect_going_back_for_the_earlier(6);
}

TEST_F(PollPlannerTest, APollFromTheBeginningIsEnoughForATransactionThatEnded) {
    open_ = {7};
    end_ = 1000;
    poll(500, true, 60);
    planner_.start_over();
    open_.emplace();
    end_.reset();
    poll(400, true, 60);
    EXPECT_TRUE(believed_);
    now_ += PollPlanner::kLateWindow;
    poll(900, true, 60);  // the first sweep
    poll(950, true, 60);
    EXPECT_EQ(poll(1500, true, 60).after, "950");
    EXPECT_TRUE(believed_) << "7 is forgotten";
}

TEST_F(PollPlannerTest, InABacklogRowsWrittenDuringATransactionAreBelieved) {
    open_ = {7};
    end_ = 1000;
    poll(500, true, 60);
    end_.reset();
    now_ += PollPlanner::kLateWindow;
    poll(600, true, 60);  // the first sweep
    while (poll(700, true, 60).sweep) {
    }
    open_.emplace();
    PollPlanner::Poll next = poll(1000, true, 60);
    while (next.sweep) next = poll(1000, true, 60);
    EXPECT_EQ(next.after, "700");
    EXPECT_TRUE(believed_) << "1000 was there while 7 was open: its writer did not wait for 7";
    while (poll(1500, true, 60).sweep) EXPECT_TRUE(believed_);
    EXPECT_FALSE(believed_) << "however long ago its transaction began";
    EXPECT_EQ(poll(500, true, 60).after, std::nullopt);
    EXPECT_TRUE(believed_);
}

TEST_F(PollPlannerTest, BehindABacklogItGoesBackOnceForAllThatHaveEnded) {
    open_.emplace();
    end_ = 10'000;
    poll(500, true, 60);
    now_ += PollPlanner::kLateWindow;
    // Each poll sees another writer, which has ended by the next one.
    for (std::int64_t last = 1000; last <= 9000; last += 500) {
        open_ = {static_cast<std::uint64_t>(last)};
        while (poll(last, true, 60).up_to) {
        }
        EXPECT_TRUE(believed_) << last;
    }
    open_.emplace();
    poll(10'500, true, 60);
    EXPECT_FALSE(believed_) << "behind the end as it was when the first of them was open";
    EXPECT_EQ(poll(9500, true, 60).after, "500") << "the first of them came kLateWindow after that";
    EXPECT_TRUE(believed_);
    int thrown_away = 0;
    for (std::int64_t last = 10'000; last <= 20'000; last += 500) {
        poll(last, true, 60);
        if (!believed_) ++thrown_away;
    }
    EXPECT_EQ(thrown_away, 0) << "that was for all of them";
}

}  // namespace
}  // namespace deliverd::relay
