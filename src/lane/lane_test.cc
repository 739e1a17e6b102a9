#include "lane/lane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "lane/testing/fake_outbox.h"
#include "lane/testing/fakes.h"

namespace deliverd::lane {
namespace {

using namespace std::chrono_literals;

class LaneTest : public ::testing::Test {
protected:
    LaneTest() {
        options.name = "test";
        options.worker_id = "w1";
        options.batch_size = 7;
        options.parallelism = 3;
        options.idle_poll = 10ms;
    }

    void enqueue(int rows) {
        for (int i = 0; i < rows; ++i) fake.enqueue("");
    }
    Lane& lane() {
        if (!lane_) lane_ = std::make_unique<Lane>(options, outbox, sink, clock, random, observer, log);
        return *lane_;
    }
    std::int64_t sent() { return outbox.counts()->sent; }

    SystemClock clock;
    SeededRandom random{1};
    Observer observer;
    NullLog log;
    FakeOutbox fake{[this] { return clock.now().time_since_epoch(); }};
    SwitchedOutbox outbox{fake};
    ScriptedSink sink;
    LaneOptions options;

private:
    std::unique_ptr<Lane> lane_;
};

TEST_F(LaneTest, DeliversEveryRowOnce) {
    enqueue(300);
    lane().start();
    EXPECT_TRUE(eventually([&] { return sent() == 300; }));
    lane().stop(5s);
    const std::vector<std::int64_t> sends = sink.sends();
    EXPECT_EQ(sends.size(), 300U);
    EXPECT_EQ(std::set<std::int64_t>(sends.begin(), sends.end()).size(), 300U);
    const LaneTotals totals = lane().totals();
    EXPECT_EQ(totals.claimed, 300U);
    EXPECT_EQ(totals.sent, 300U);
    EXPECT_FALSE(totals.anything_failed());
}

TEST_F(LaneTest, SendsUpToParallelismAtOnce) {
    sink.hold = true;
    enqueue(20);
    lane().start();
    EXPECT_TRUE(eventually([&] { return sink.held() == 3; }));
    for (int round = 0; round < 40 && sent() < 20; ++round) {
        eventually([&] { return sink.held() > 0 || sent() == 20; });
        sink.release({.kind = OutcomeKind::delivered});
    }
    EXPECT_TRUE(eventually([&] { return sent() == 20; }));
    lane().stop(5s);
    EXPECT_EQ(sink.most_at_once, 3U);
}

TEST_F(LaneTest, FewLargeMessagesAreHeldAtATime) {
    options.held_bytes = 5'000;
    fake.body.assign(1'000, 'x');
    sink.hold = true;
    enqueue(40);
    lane().start();
    for (int round = 0; round < 100 && sent() < 40; ++round) {
        eventually([&] { return sink.held() > 0 || sent() == 40; });
        const bool size_known = sent() >= 7;  // the first batch is claimed before it is
        const std::size_t held = fake.holders().size();
        EXPECT_LE(held, size_known ? 5U : 7U);
        sink.release({.kind = OutcomeKind::delivered});
    }
    EXPECT_TRUE(eventually([&] { return sent() == 40; }));
    lane().stop(5s);
}

TEST_F(LaneTest, RunOnceProcessesOneBatch) {
    enqueue(12);
    const LaneTotals totals = lane().run_once(10s);
    EXPECT_EQ(totals.claimed, 7U);
    EXPECT_EQ(totals.sent, 7U);
    EXPECT_FALSE(totals.anything_failed());
    EXPECT_EQ(sent(), 7);
}

TEST_F(LaneTest, RunOnceReportsFailures) {
    enqueue(2);
    sink.answer = [](const Message& message) {
        return Outcome{.kind = message.id == 1 ? OutcomeKind::retryable : OutcomeKind::permanent, .code = "E"};
    };
    const LaneTotals totals = lane().run_once(10s);
    EXPECT_EQ(totals.retried, 1U);
    EXPECT_EQ(totals.dead, 1U);
    EXPECT_TRUE(totals.anything_failed());
    EXPECT_EQ(fake.rows().at(1).failures, 1);
    EXPECT_EQ(fake.rows().at(2).status, "dead");
    EXPECT_EQ(fake.rows().at(2).failures, 1);
}

TEST_F(LaneTest, EachFailedSendIsLogged) {
    enqueue(2);
    sink.answer = [](const Message& message) {
        return Outcome{.kind = message.id == 1 ? OutcomeKind::ambiguous : OutcomeKind::permanent, .code = "E"};
    };
    RecordingLog recording;
    Lane(options, outbox, sink, clock, random, observer, recording).run_once(10s);
    EXPECT_THAT(recording.lines,
                ::testing::UnorderedElementsAre(
                    "warn: a send failed lane=test message_id=fake-1 outcome=ambiguous error=E (ambiguous: the "
                    "receiver may have it)",
                    "error: gave up on a message lane=test message_id=fake-2 outcome=permanent error=E"));
}

TEST_F(LaneTest, RunOnceReportsThatTheDatabaseIsAway) {
    outbox.down = true;
    const LaneTotals totals = lane().run_once(10s);
    EXPECT_EQ(totals.database_errors, 1U);
    EXPECT_TRUE(totals.anything_failed());
}

TEST_F(LaneTest, EqualMessagesFarApartAreSentOnce) {
    options.parallelism = 1;
    options.batch_size = 5;
    for (const char* key : {"same", "x1", "x2", "same", "x3", "x4", "same"}) fake.enqueue(key);
    lane().start();
    EXPECT_TRUE(eventually([&] { return sent() == 7; }));
    lane().stop(5s);
    EXPECT_EQ(sink.sends().size(), 5U);
    EXPECT_EQ(lane().totals().duplicates, 2U);
}

TEST_F(LaneTest, HardlyAnythingIsSentWhileSettlesAreRefused) {
    options.settle_patience = 1h;
    enqueue(100);
    outbox.refuse_all = true;
    lane().start();
    ASSERT_TRUE(eventually([&] { return outbox.settle_calls >= 10; }));
    const std::size_t sends = sink.sends().size();
    EXPECT_LE(sends, 4U * 7U);  // what was claimed before the first refusal
    outbox.refuse_all = false;
    EXPECT_TRUE(eventually([&] { return sent() == 100; }, 60s));
    lane().stop(5s);
    EXPECT_EQ(sink.sends().size(), 100U);  // nothing was sent twice
}

TEST_F(LaneTest, ARowSomeoneHasLockedIsSettledLaterAndDelaysNoOther) {
    enqueue(7);
    outbox.busy = 4;
    lane().start();
    EXPECT_TRUE(eventually([&] { return sent() == 6; }));
    outbox.busy = 0;
    EXPECT_TRUE(eventually([&] { return sent() == 7; }));
    lane().stop(5s);
    EXPECT_EQ(sink.sends().size(), 7U);
    EXPECT_EQ(lane().totals().conflicts, 0U);
}

TEST_F(LaneTest, AConflictAfterAFailedTryIsStillAConflict) {
    sink.hold = true;
    enqueue(1);
    lane().start();
    ASSERT_TRUE(eventually([&] { return sink.held() == 1; }));
    outbox.down = true;
    sink.release({.kind = OutcomeKind::delivered});
    ASSERT_TRUE(eventually([&] { return outbox.settle_calls >= 1; }));
    ASSERT_EQ(fake.claim({"thief", 10, Duration(-1), std::nullopt})->rows.size(), 1U);
    const store::Settlement by_thief{.id = 1, .kind = store::SettleKind::sent};
    ASSERT_TRUE(fake.settle("thief", {&by_thief, 1})->front().applied);
    outbox.down = false;
    EXPECT_TRUE(eventually([&] { return lane().totals().conflicts == 1; }));
    lane().stop(5s);
    EXPECT_EQ(lane().totals().sent, 0U);
}

TEST_F(LaneTest, EqualMessagesOfOneBatchAreSentOnce) {
    for (int i = 0; i < 3; ++i) fake.enqueue("same");
    const LaneTotals totals = lane().run_once(10s);
    EXPECT_EQ(totals.sent, 1U);
    EXPECT_EQ(totals.duplicates, 2U);
    EXPECT_EQ(sink.sends().size(), 1U);
    for (const auto& [id, row] : fake.rows()) EXPECT_EQ(row.receipt, "m-1") << id;
}

TEST_F(LaneTest, StoppingFinishesWhatIsUnderWayAndGivesTheRestBack) {
    sink.hold = true;
    enqueue(10);
    lane().start();
    ASSERT_TRUE(eventually([&] { return sink.held() == 3; }));
    std::atomic<bool> stopped{false};
    std::thread stopper([&] {
        lane().stop(20s);
        stopped = true;
    });
    // Some more may have been sent before the stop took hold.
    EXPECT_TRUE(eventually([&] {
        sink.release({.kind = OutcomeKind::delivered});
        return stopped.load();
    }));
    stopper.join();
    const LaneTotals totals = lane().totals();
    EXPECT_GE(totals.sent, 3U);
    EXPECT_EQ(totals.sent, sink.sends().size());
    EXPECT_EQ(totals.sent + totals.released, totals.claimed);
    EXPECT_EQ(totals.abandoned, 0U);
    for (const auto& [id, row] : fake.rows()) EXPECT_FALSE(row.locked_by.has_value()) << id;
}

TEST_F(LaneTest, UnfinishedRowsAreLeftToTheirLeasesUncounted) {
    sink.hold = true;
    enqueue(2);
    lane().start();
    ASSERT_TRUE(eventually([&] { return sink.held() == 2; }));
    lane().stop(0s);
    EXPECT_EQ(lane().totals().abandoned, 2U);
    for (const auto& [id, row] : fake.rows()) {
        EXPECT_EQ(row.status, "pending");
        EXPECT_EQ(row.failures, 0);
        EXPECT_EQ(row.locked_by, "w1");
    }
}

TEST_F(LaneTest, HurryEndsAPatientStop) {
    sink.hold = true;
    enqueue(2);
    lane().start();
    ASSERT_TRUE(eventually([&] { return sink.held() == 2; }));
    std::thread stopper([&] { lane().stop(1h); });
    lane().hurry();
    stopper.join();
    EXPECT_EQ(lane().totals().abandoned, 2U);
}

TEST_F(LaneTest, AHurriedStopStillGivesUnsentRowsBack) {
    sink.hold = true;
    enqueue(7);
    lane().start();
    ASSERT_TRUE(eventually([&] { return lane().totals().claimed == 7 && sink.held() == 3; }));
    lane().hurry();
    lane().stop(1h);
    const LaneTotals totals = lane().totals();
    EXPECT_EQ(totals.abandoned, 3U);
    EXPECT_EQ(totals.released, 4U);
    EXPECT_EQ(fake.holders().size(), 3U);
}

TEST_F(LaneTest, AHurriedStopStillRecordsWhatHasEnded) {
    options.settle_linger = 1h;  // it waits for the two that are kept
    sink.answer = [this](const Message&) {
        sink.hold = true;
        return Outcome{.kind = OutcomeKind::delivered};
    };
    enqueue(3);
    lane().start();
    ASSERT_TRUE(eventually([&] { return sink.held() == 2; }));
    lane().hurry();
    lane().stop(1h);
    EXPECT_EQ(lane().totals().sent, 1U);
    EXPECT_EQ(lane().totals().abandoned, 2U);
    EXPECT_EQ(sent(), 1);
}

TEST_F(LaneTest, AHurriedStopEndsWhenTheDatabaseIsAway) {
    sink.hold = true;
    enqueue(7);
    lane().start();
    ASSERT_TRUE(eventually([&] { return lane().totals().claimed == 7 && sink.held() == 3; }));
    outbox.down = true;
    sink.release({.kind = OutcomeKind::delivered});
    std::thread stopper([&] { lane().stop(1h); });
    lane().hurry();
    stopper.join();
    const LaneTotals totals = lane().totals();
    EXPECT_EQ(totals.sent, 0U);
    EXPECT_EQ(totals.released, 0U);
    EXPECT_EQ(totals.abandoned, 7U);
}

TEST_F(LaneTest, RowsThatWaitForAPauseAreGivenBackOnAStop) {
    options.throttle = true;
    sink.answer = [](const Message&) {
        return Outcome{.kind = OutcomeKind::retryable, .code = "RATE_LIMITED", .retry_after = 1h};
    };
    enqueue(10);
    lane().start();
    EXPECT_TRUE(eventually([&] { return lane().totals().retried > 0; }));
    lane().stop(1h);
    const LaneTotals totals = lane().totals();
    EXPECT_EQ(totals.retried, sink.sends().size());
    EXPECT_LE(totals.retried, 3U);
    EXPECT_GT(totals.released, 0U);
    EXPECT_EQ(totals.retried + totals.released, totals.claimed);
    EXPECT_TRUE(fake.holders().empty());
}

TEST_F(LaneTest, RunOnceDoesNotWaitForAPauseToEnd) {
    options.throttle = true;
    sink.answer = [](const Message&) {
        return Outcome{.kind = OutcomeKind::retryable, .code = "RATE_LIMITED", .retry_after = 1h};
    };
    enqueue(7);
    const LaneTotals totals = lane().run_once(1h);
    EXPECT_EQ(totals.claimed, 7U);
    EXPECT_EQ(totals.retried, 3U);
    EXPECT_EQ(totals.released, 4U);
    EXPECT_TRUE(fake.holders().empty());
}

TEST_F(LaneTest, RunOnceFreesStuckRowsFirst) {
    options.rescue_interval = 1h;
    fake.claims_expired = false;
    enqueue(1);
    ASSERT_EQ(fake.claim({"gone", 10, options.lease, std::nullopt})->rows.size(), 1U);
    fake.rows().at(1).locked_at -= 2 * options.lease;
    EXPECT_EQ(lane().run_once(10s).sent, 1U);
    EXPECT_EQ(fake.rescue_calls, 1);
}

TEST_F(LaneTest, SurvivesADatabaseOutageAndCountsNothingTwice) {
    sink.hold = true;
    enqueue(6);
    lane().start();
    ASSERT_TRUE(eventually([&] { return sink.held() == 3; }));
    outbox.down = true;
    sink.hold = false;
    sink.release({.kind = OutcomeKind::delivered});
    ASSERT_TRUE(eventually([&] { return outbox.settle_calls >= 2; }));
    EXPECT_EQ(sent(), 0);
    outbox.down = false;
    EXPECT_TRUE(eventually([&] { return sent() == 6; }));
    lane().stop(5s);
    EXPECT_EQ(sink.sends().size(), 6U);
    for (const auto& [id, row] : fake.rows()) EXPECT_EQ(row.failures, 0);
    EXPECT_THAT(fake.notes, ::testing::Each(::testing::Field(&store::AuditNote::reason, "outbox_flush_db_error")));
    EXPECT_FALSE(fake.notes.empty());
}

TEST_F(LaneTest, ALongSendKeepsItsLease) {
    options.lease = 3s;
    sink.hold = true;
    enqueue(1);
    lane().start();
    ASSERT_TRUE(eventually([&] { return sink.held() == 1; }));
    // Others go by locked_at. A thief who comes when the first lease is over would need a machine that never stalls.
    const Duration before = clock.now().time_since_epoch();
    const int calls = outbox.renew_calls;
    ASSERT_TRUE(eventually([&] { return outbox.renew_calls >= calls + 2; }));  // one is whole, and there is a next one
    EXPECT_GT(fake.locked_at(1), before);
    EXPECT_THAT(fake.holders(), ::testing::ElementsAre("w1"));
    sink.release({.kind = OutcomeKind::delivered});
    EXPECT_TRUE(eventually([&] { return sent() == 1; }));
    lane().stop(5s);
    EXPECT_EQ(lane().totals().conflicts, 0U);
}

TEST_F(LaneTest, ARowThatWasTakenOverIsOneConflictInTheAudit) {
    sink.hold = true;
    enqueue(1);
    lane().start();
    ASSERT_TRUE(eventually([&] { return sink.held() == 1; }));
    ASSERT_EQ(fake.claim({"thief", 10, Duration(-1), std::nullopt})->rows.size(), 1U);
    sink.release({.kind = OutcomeKind::delivered});
    EXPECT_TRUE(eventually([&] { return lane().totals().conflicts == 1; }));
    lane().stop(5s);
    ASSERT_EQ(fake.notes.size(), 1U);
    EXPECT_EQ(fake.notes[0].reason, "outbox_flush_conflict");
    EXPECT_EQ(fake.notes[0].detail, "found status=pending locked_by=thief");
    EXPECT_EQ(fake.rows().at(1).locked_by, "thief");
    EXPECT_EQ(fake.rows().at(1).status, "pending");
}

TEST_F(LaneTest, ARowWhoseSettleIsRefusedDoesNotHoldUpTheOthers) {
    options.settle_patience = 100ms;
    enqueue(7);
    outbox.poison = 4;
    const LaneTotals totals = lane().run_once(10s);
    EXPECT_EQ(totals.sent, 6U);
    EXPECT_EQ(totals.abandoned, 1U);
    EXPECT_EQ(fake.rows().at(4).locked_by, "w1");
}

}  // namespace
}  // namespace deliverd::lane
