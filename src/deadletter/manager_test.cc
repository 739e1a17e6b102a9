// One retry. The stores' own part is in their conformance suites; here is a store in memory that can
// fail at each call.
#include "deadletter/manager.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "deadletter/testing/fake_source.h"
#include "deadletter/testing/manager_fixture.h"

namespace deliverd::deadletter {
namespace {

using Fault = FakeLetters::Fault;
using store::LetterStatus;

TEST_F(ManagerTest, PublishesAndResolves) {
    const std::string id = letters.add("orders");
    std::vector<std::string> calls_before;
    replayer.before = [&] { calls_before = letters.calls(); };
    const RetryReport report = retry(id);
    EXPECT_EQ(report.answer, RetryAnswer::resolved);
    EXPECT_NE(report.message.find("orders[0]@1"), std::string::npos);
    EXPECT_EQ(report.letter->status, LetterStatus::resolved);
    EXPECT_EQ(status(id), LetterStatus::resolved);
    EXPECT_EQ(calls_before, (std::vector<std::string>{"find", "begin_retry"})) << "recorded before publishing";
    ASSERT_EQ(replayer.arrived().size(), 1U);
    const Record record = replayer.arrived().front();
    EXPECT_EQ(record.topic, "orders");
    EXPECT_EQ(record.key, "key-1");
    EXPECT_EQ(record.headers, (std::vector<RecordHeader>{{"n", "1"}, {"deliverd-replays", "1"}}));
}

TEST_F(ManagerTest, UnknownIsNotFound) {
    EXPECT_EQ(retry("00000000-0000-4000-8000-000000000009").answer, RetryAnswer::not_found);
    EXPECT_EQ(retry("nonsense").answer, RetryAnswer::not_found);
    EXPECT_EQ(retry("non\nsense").message, "message not found: non sense");
    EXPECT_EQ(letters.calls_of("begin_retry"), 0);
}

TEST_F(ManagerTest, FinishedIsNotRetried) {
    const std::string id = letters.add("orders");
    for (const auto& [end, text] : {std::pair(LetterStatus::dead, "status=DEAD, retry_count=0/3"),
                                    std::pair(LetterStatus::resolved, "status=RESOLVED, retry_count=0/3")}) {
        letters.change(id, [end = end](FakeLetters::Row& row) { row.detail.letter.status = end; });
        const RetryReport report = retry(id);
        EXPECT_EQ(report.answer, RetryAnswer::conflict);
        EXPECT_EQ(report.message, std::string("message is not retryable: ") + text);
    }
    EXPECT_TRUE(replayer.arrived().empty());
    EXPECT_EQ(letters.calls_of("begin_retry"), 0);
}

TEST_F(ManagerTest, AtTheLimitItIsNotRetried) {
    const std::string id = letters.add("orders");
    letters.change(id, [](FakeLetters::Row& row) {
        row.detail.letter.status = LetterStatus::retrying;
        row.detail.letter.retry_count = 3;
    });
    const RetryReport report = retry(id);
    EXPECT_EQ(report.answer, RetryAnswer::conflict);
    EXPECT_EQ(report.message, "message is not retryable: status=RETRYING, retry_count=3/3");
    EXPECT_TRUE(replayer.arrived().empty());
}

TEST_F(ManagerTest, AtTheLimitAndInDoubtTheAnswerSaysWhatToDo) {
    const std::string id = letters.add("orders");
    answer_all({.kind = OutcomeKind::ambiguous, .code = "TIMED_OUT"});
    for (int i = 1; i <= 3; ++i) EXPECT_EQ(retry(id).answer, RetryAnswer::in_doubt);
    const RetryReport report = retry(id);
    EXPECT_EQ(report.answer, RetryAnswer::conflict);
    EXPECT_EQ(report.message.find("message is not retryable: status=RETRYING, retry_count=3/3: its last retry may"), 0U)
        << report.message;
    EXPECT_NE(report.message.find("mark it as dead or delete it"), std::string::npos);
    EXPECT_EQ(replayer.arrived().size(), 3U);
}

TEST_F(ManagerTest, AnUnfinishedRetryIsTakenOverAlsoAtTheLimit) {
    const std::string id = add_unfinished();
    EXPECT_EQ(retry(id).answer, RetryAnswer::resolved);
    EXPECT_EQ(retries(id), 3);
}

/// Its process may have published it: that this one sent nothing does not take that back.
TEST_F(ManagerTest, AnUnfinishedRetryStaysInDoubtWhenTheNextSendsNothing) {
    const std::string id = add_unfinished();
    answer_all({.kind = OutcomeKind::retryable, .code = "UNREACHABLE", .detail = "no broker", .not_attempted = true});
    const RetryReport report = retry(id);
    EXPECT_EQ(report.answer, RetryAnswer::in_doubt);
    EXPECT_NE(report.message.find("an earlier retry did not end, and this one sent nothing: UNREACHABLE"),
              std::string::npos)
        << report.message;
    EXPECT_EQ(retries(id), 3);
    EXPECT_EQ(retry(id).answer, RetryAnswer::conflict) << "that was its last";
}

/// A process that stood still between the beginning and the publishing: its successor may be at it.
TEST_F(ManagerTest, WhatWaitedForItsWholeLeaseIsNotPublished) {
    const auto clock = std::make_shared<HandClock>();
    ManagerOptions held = options();
    held.clock = clock;
    Manager other(held, letters, &replayer, log);
    const std::string id = letters.add("orders");
    letters.fault = [&](int, std::string_view call) {
        if (call == "begin_retry") clock->move(held.retry_lease - held.publish_at_most);
        return Fault::none;
    };
    const RetryReport report = other.retry(id, "ops");
    EXPECT_EQ(report.answer, RetryAnswer::not_published);
    EXPECT_NE(report.message.find("its lease could have run out"), std::string::npos) << report.message;
    EXPECT_TRUE(replayer.arrived().empty());
    EXPECT_EQ(retries(id), 0);
}

TEST_F(ManagerTest, WithoutABrokerNothingIsCounted) {
    const std::string id = letters.add("orders");
    answer_all({.kind = OutcomeKind::retryable, .code = "UNREACHABLE", .detail = "no broker", .not_attempted = true});
    for (int i = 0; i < 5; ++i) {
        const RetryReport report = retry(id);
        EXPECT_EQ(report.answer, RetryAnswer::not_published);
        EXPECT_NE(report.message.find("nothing was published: UNREACHABLE: no broker"), std::string::npos);
    }
    EXPECT_EQ(status(id), LetterStatus::pending);
    EXPECT_EQ(retries(id), 0);
}

TEST_F(ManagerTest, CertainFailureCountsAndTheLastOneIsDeath) {
    const std::string id = letters.add("orders");
    answer_all({.kind = OutcomeKind::permanent, .code = "TOO_LARGE", .detail = "refused"});
    for (int i = 1; i <= 3; ++i) {
        const RetryReport report = retry(id);
        EXPECT_EQ(report.answer, RetryAnswer::not_published);
        EXPECT_EQ(report.message.find("not published: TOO_LARGE: refused"), 0U);
        EXPECT_EQ(report.message.find("DEAD") != std::string::npos, i == 3) << report.message;
        EXPECT_EQ(retries(id), i);
    }
    EXPECT_EQ(status(id), LetterStatus::dead);
    EXPECT_EQ(retry(id).answer, RetryAnswer::conflict);
}

TEST_F(ManagerTest, WhatNobodyConfirmedStaysInDoubt) {
    const std::string id = letters.add("orders");
    answer_all({.kind = OutcomeKind::ambiguous, .code = "TIMED_OUT"});
    const RetryReport report = retry(id);
    EXPECT_EQ(report.answer, RetryAnswer::in_doubt);
    EXPECT_EQ(status(id), LetterStatus::retrying);
    EXPECT_TRUE(letters.at(id).detail.letter.in_doubt);
}

TEST_F(ManagerTest, OfTwentyAtOnceOnePublishes) {
    const std::string id = letters.add("orders");
    std::atomic<int> refused{0};
    // The one that publishes waits until all others have their answer.
    replayer.before = [&] { EXPECT_TRUE(eventually([&] { return refused == 19; })); };
    std::vector<std::future<RetryAnswer>> answers;
    for (int i = 0; i < 20; ++i) {
        answers.push_back(std::async(std::launch::async, [&] {
            const RetryReport report = retry(id);
            if (report.answer == RetryAnswer::conflict) {
                EXPECT_EQ(report.message, "another retry of this message is under way");
                ++refused;
            }
            return report.answer;
        }));
    }
    int resolved = 0;
    for (auto& answer : answers) resolved += answer.get() == RetryAnswer::resolved ? 1 : 0;
    EXPECT_EQ(resolved, 1);
    EXPECT_EQ(refused, 19);
    EXPECT_EQ(replayer.arrived().size(), 1U);
    EXPECT_EQ(retries(id), 1);
}

TEST_F(ManagerTest, RefusalsAreConflictsWithTheReason) {
    const std::string id = letters.add("orders.dlq.v1");
    EXPECT_NE(retry(id).message.find("itself for dead letters"), std::string::npos);
    EXPECT_EQ(retry(id).answer, RetryAnswer::conflict);
    const std::string cut = letters.add("orders");
    letters.change(cut, [](FakeLetters::Row& row) { row.detail.letter.truncated = true; });
    EXPECT_EQ(retry(cut).answer, RetryAnswer::conflict);
    const std::string order = letters.add_of_lane("orders", "orders");
    letters.change(order, [](FakeLetters::Row& row) { row.detail.letter.status = LetterStatus::dead; });
    EXPECT_NE(retry(order).message.find("dead order"), std::string::npos);
    EXPECT_EQ(letters.calls_of("begin_retry"), 0) << "a refused one is not touched";
}

TEST_F(ManagerTest, TheConfiguredPatternDecidesWhatIsForDeadLetters) {
    ManagerOptions with_pattern = options();
    with_pattern.dead_letter_pattern = "*-dlt";
    Manager other(with_pattern, letters, &replayer, log);
    const std::string id = letters.add("orders-dlt");
    EXPECT_EQ(other.retry(id, "ops").answer, RetryAnswer::conflict);
    EXPECT_EQ(manager.retry(id, "ops").answer, RetryAnswer::resolved);
}

TEST_F(ManagerTest, ALanesRowGoesBackIntoItsLane) {
    const std::string id = letters.add_of_lane("memories", "memory");
    const RetryReport report = retry(id);
    EXPECT_EQ(report.answer, RetryAnswer::resolved);
    EXPECT_EQ(status(id), LetterStatus::resolved);
    EXPECT_EQ(letters.calls_of("return_to_lane"), 1);
    EXPECT_TRUE(replayer.batches().empty());
}

TEST_F(ManagerTest, ALanesRowThatIsGoneIsAConflict) {
    const std::string id = letters.add_of_lane("memories", "memory");
    letters.change(id, [](FakeLetters::Row& row) { row.lane_row_gone = true; });
    const RetryReport report = retry(id);
    EXPECT_EQ(report.answer, RetryAnswer::conflict);
    EXPECT_NE(report.message.find("the row is gone"), std::string::npos);
}

TEST_F(ManagerTest, StandAloneResolvesWithoutPublishing) {
    ManagerOptions alone = options();
    alone.dead_letter_pattern.clear();
    Manager other(alone, letters, nullptr, log);
    const std::string id = letters.add("orders.dlq.v1");
    const RetryReport refused = other.retry(id, "ops");
    EXPECT_EQ(refused.answer, RetryAnswer::conflict) << "nothing would be published of what came from Kafka";
    EXPECT_NE(refused.message.find("read from Kafka"), std::string::npos);
    letters.change(id, [](FakeLetters::Row& row) { row.detail.letter.topic.reset(); });
    EXPECT_EQ(other.retry(id, "ops").answer, RetryAnswer::resolved)
        << "a row that was inserted may name the dead-letter topic";
    EXPECT_EQ(status(id), LetterStatus::resolved);
    const std::string lane = letters.add_of_lane("memories", "memory");
    EXPECT_EQ(other.retry(lane, "ops").answer, RetryAnswer::resolved);
    EXPECT_EQ(letters.calls_of("return_to_lane"), 1) << "a lane does not need Kafka";
    const std::string order = letters.add_of_lane("orders", "orders");
    EXPECT_EQ(other.retry(order, "ops").answer, RetryAnswer::conflict);
}

TEST_F(ManagerTest, WithoutAReplayerItSaysSoAndTouchesNothing) {
    Manager other(options(), letters, nullptr, log);
    const std::string id = letters.add("orders");
    const RetryReport report = other.retry(id, "ops");
    EXPECT_EQ(report.answer, RetryAnswer::not_published);
    EXPECT_EQ(status(id), LetterStatus::pending);
    EXPECT_EQ(letters.calls_of("begin_retry"), 0);
}

TEST_F(ManagerTest, PublishedButNotRecordedIsInDoubtAndCanBePublishedTwice) {
    const std::string id = letters.add("orders");
    letters.fault = [](int, std::string_view name) { return name == "end_retry" ? Fault::retryable : Fault::none; };
    const RetryReport report = retry(id);
    EXPECT_EQ(report.answer, RetryAnswer::in_doubt);
    EXPECT_NE(report.message.find("a second time"), std::string::npos);
    EXPECT_NE(report.message.find("could not be recorded: switched off"), std::string::npos) << report.message;
    EXPECT_EQ(status(id), LetterStatus::retrying);
    EXPECT_EQ(letters.calls_of("end_retry"), kStoreAttempts);
    EXPECT_EQ(log.count(LogLevel::error), 1);

    letters.fault = [](int, std::string_view) { return Fault::none; };
    EXPECT_EQ(retry(id).message, "another retry of this message is under way") << "its lease still runs";
    letters.advance(std::chrono::minutes(1));
    EXPECT_EQ(retry(id).answer, RetryAnswer::resolved);
    EXPECT_EQ(replayer.arrived().size(), 2U) << "the documented duplicate";
}

TEST_F(ManagerTest, ALostAnswerOfTheLastStepIsFoundOut) {
    const std::string id = letters.add("orders");
    std::atomic<int> lost{0};
    letters.fault = [&](int, std::string_view name) {
        return name == "end_retry" && ++lost == 1 ? Fault::ambiguous_done : Fault::none;
    };
    EXPECT_EQ(retry(id).answer, RetryAnswer::resolved);
    EXPECT_EQ(letters.calls_of("end_retry"), 2);
}

TEST_F(ManagerTest, WhatWasDeletedMeanwhileIsSaidToBe) {
    const std::string id = letters.add("orders");
    replayer.before = [&] {
        EXPECT_EQ(letters.remove(id, "ops").value(), store::Removal::under_way);
        letters.advance(std::chrono::minutes(1));
        EXPECT_EQ(letters.remove(id, "ops").value(), store::Removal::removed);
    };
    const RetryReport report = retry(id);
    EXPECT_EQ(report.answer, RetryAnswer::in_doubt);
    EXPECT_NE(report.message.find("it was deleted meanwhile"), std::string::npos) << report.message;
}

TEST_F(ManagerTest, TakenOverByAnotherAfterItsLeaseIsInDoubt) {
    const std::string id = letters.add("orders");
    replayer.before = [&] { letters.change(id, [](FakeLetters::Row& row) { row.owner = "somebody else"; }); };
    const RetryReport report = retry(id);
    EXPECT_EQ(report.answer, RetryAnswer::in_doubt);
    EXPECT_EQ(letters.at(id).owner, "somebody else");
}

/// Every store call fails once, in every way. The answer is true: never "not published" for what arrived, and
/// never "resolved" for what did not.
TEST_F(ManagerTest, WhereverTheStoreFailsTheAnswerIsTrue) {
    for (const Fault kind : {Fault::retryable, Fault::permanent, Fault::ambiguous_not_done, Fault::ambiguous_done}) {
        for (const bool lane : {false, true}) {
            for (int nth = 1; nth <= 5; ++nth) {
                FakeLetters failing;
                FakeReplayer broker;
                Manager other(options(), failing, &broker, log);
                const std::string id = lane ? failing.add_of_lane("memories", "memory") : failing.add("orders");
                failing.fault = [&](int number, std::string_view) { return number == nth ? kind : Fault::none; };
                const RetryReport report = other.retry(id, "ops");
                const bool arrived = !broker.arrived().empty() ||
                                     (lane && failing.at(id).detail.letter.status == LetterStatus::resolved);
                const std::string where = "call " + std::to_string(nth) + ", fault " +
                                          std::to_string(static_cast<int>(kind)) + ": " + report.message;
                if (arrived) {
                    EXPECT_TRUE(report.answer == RetryAnswer::resolved || report.answer == RetryAnswer::in_doubt)
                        << where;
                } else {
                    EXPECT_TRUE(report.answer == RetryAnswer::not_published || report.answer == RetryAnswer::in_doubt ||
                                report.answer == RetryAnswer::unavailable)
                        << where;
                }
                if (report.answer == RetryAnswer::resolved) {
                    EXPECT_EQ(failing.at(id).detail.letter.status, LetterStatus::resolved) << where;
                }
                EXPECT_LE(broker.arrived().size(), 1U) << where;
            }
        }
    }
}

TEST_F(ManagerTest, AStoreThatIsAwayBeforeAnythingBeganIsNoFailureOfTheBroker) {
    const std::string id = letters.add("orders");
    for (const char* call : {"find", "begin_retry"}) {
        letters.fault = [call](int, std::string_view name) { return name == call ? Fault::retryable : Fault::none; };
        const RetryReport report = retry(id);
        EXPECT_EQ(report.answer, RetryAnswer::unavailable);
        ASSERT_TRUE(report.store_error);
        EXPECT_EQ(report.store_error->code, "db_unreachable");
        EXPECT_EQ(report.message.find("nothing was published: "), 0U);
    }
    EXPECT_TRUE(replayer.arrived().empty());
}

TEST_F(ManagerTest, AStopWaitsAsLongAsItIsToldToAndNoLonger) {
    const std::string id = letters.add("orders");
    std::promise<void> let_go;
    std::atomic<bool> inside{false};
    replayer.before = [&] {
        inside = true;
        let_go.get_future().wait();
    };
    auto retried = std::async(std::launch::async, [&] { return retry(id).answer; });
    ASSERT_TRUE(eventually([&] { return inside.load(); }));
    manager.close();
    EXPECT_EQ(retry(id).answer, RetryAnswer::unavailable);
    EXPECT_FALSE(manager.stop(std::chrono::milliseconds(1)));
    let_go.set_value();
    EXPECT_TRUE(manager.stop(std::chrono::seconds(20)));
    EXPECT_EQ(retried.get(), RetryAnswer::resolved) << "what was under way was brought to its end";
}

TEST_F(ManagerTest, AfterStopNothingBegins) {
    const std::string id = letters.add("orders");
    manager.stop();
    EXPECT_EQ(retry(id).answer, RetryAnswer::unavailable);
    EXPECT_FALSE(manager.retry_all("orders", "ops"));
    EXPECT_EQ(manager.resume_abandoned().value(), 0);
    EXPECT_TRUE(letters.calls().empty());
}

TEST_F(ManagerTest, StopWaitsForTheRetryUnderWay) {
    const std::string id = letters.add("orders");
    std::promise<void> go;
    std::atomic<bool> publishing{false};
    std::atomic<bool> stopped{false};
    replayer.before = [&] {
        publishing = true;
        go.get_future().wait();
        EXPECT_FALSE(stopped);
    };
    auto report = std::async(std::launch::async, [&] { return retry(id); });
    ASSERT_TRUE(eventually([&] { return publishing.load(); }));
    auto stopping = std::async(std::launch::async, [&] {
        manager.stop();
        stopped = true;
    });
    ASSERT_TRUE(eventually([&] { return retry(id).message.find("deliverd is stopping") != std::string::npos; }));
    go.set_value();
    EXPECT_EQ(report.get().answer, RetryAnswer::resolved);
    stopping.get();
}

TEST(UuidSource, MakesUniqueUuids) {
    const auto next = uuid_source();
    const std::string one = next();
    EXPECT_EQ(one.size(), 36U);
    EXPECT_NE(one, next());
}

}  // namespace
}  // namespace deliverd::deadletter
