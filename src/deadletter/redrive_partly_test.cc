// A retry of all of a topic that cannot do all: what is said of it, and what is left as it was.
#include <atomic>
#include <chrono>
#include <thread>

#include "deadletter/retry_rules.h"
#include "deadletter/testing/redrive_fixture.h"

namespace deliverd::deadletter {
namespace {

using Fault = FakeLetters::Fault;
using store::LetterStatus;

TEST_F(RedriveTest, ABrokerThatDoesNotAnswerIsNotSaidToHaveGotNothing) {
    const auto ids = add(2'500);
    replayer.answer = [](const Record&) { return Outcome{.kind = OutcomeKind::ambiguous, .code = "TIMED_OUT"}; };
    const RedriveReport report = redrive();
    EXPECT_GT(report.redrive.in_doubt, 0);
    EXPECT_LE(report.redrive.in_doubt, 800) << "the rest is not tried";
    EXPECT_EQ(static_cast<std::int64_t>(count(LetterStatus::retrying, ids)), report.redrive.in_doubt);
    EXPECT_EQ(replayer.batches().size(), 1U);
    EXPECT_TRUE(report.problem.starts_with("the broker confirmed none of ")) << report.problem;
    const std::string told = how_it_ended(report);
    EXPECT_NE(told.find(std::to_string(report.redrive.in_doubt) + " may have been published"), std::string::npos)
        << told;
    EXPECT_TRUE(told.ends_with("; what is left can be retried")) << told;
}

/// A topic that is missing, or may not be written to: that is no letter's fault, and no other topic's.
TEST_F(RedriveTest, ATopicThatTakesNothingIsSkipped) {
    std::vector<std::string> away;
    std::vector<std::string> there;
    for (int i = 0; i < 1'500; ++i) away.push_back(letters.add("gone"));
    for (int i = 0; i < 300; ++i) there.push_back(letters.add("orders"));
    for (int i = 0; i < 300; ++i) away.push_back(letters.add("gone"));
    for (const auto& ids : {away, there}) {
        for (const std::string& id : ids) {
            letters.change(id, [](FakeLetters::Row& row) { row.detail.letter.topic = "all.dlq.v1"; });
        }
    }
    replayer.answer = [](const Record& record) {
        if (record.topic != "gone") return Outcome{.kind = OutcomeKind::delivered};
        return Outcome{.kind = OutcomeKind::retryable, .code = "UNKNOWN_TOPIC", .detail = "Kafka has no topic gone"};
    };
    for (int time = 1; time <= 4; ++time) {
        SCOPED_TRACE(time);
        const RedriveReport report = redrive("all.dlq.v1");
        EXPECT_EQ(report.redrive.published, time == 1 ? 300 : 0);
        EXPECT_EQ(report.redrive.failed, 0);
        EXPECT_GT(report.not_tried, 0);
        EXPECT_LE(report.not_tried, 800) << "what was in flight; the rest is not even begun";
        EXPECT_EQ(report.problem, "messages for topic gone were skipped: UNKNOWN_TOPIC: Kafka has no topic gone");
        EXPECT_TRUE(report.redrive.finished);
        EXPECT_EQ(count(LetterStatus::resolved, there), 300U);
        EXPECT_EQ(count(LetterStatus::pending, away), away.size()) << "as before, however often";
    }
    replayer.answer = FakeReplayer().answer;
    EXPECT_EQ(redrive("all.dlq.v1").redrive.published, 1'800) << "now that the topic is there";
}

/// What a broker refuses for the record's sake counts, also where no other of its topic is in the batch.
TEST_F(RedriveTest, ARecordThatIsRefusedDoesNotStandForItsTopic) {
    const std::string id = letters.add("orders");
    for (int i = 0; i < 300; ++i) letters.add("bills");
    for (const std::string& each : letters.ids()) {
        letters.change(each, [](FakeLetters::Row& row) { row.detail.letter.topic = "all.dlq.v1"; });
    }
    replayer.answer = [](const Record& record) {
        if (record.topic == "orders") return Outcome{.kind = OutcomeKind::retryable, .code = "BROKER_REFUSED"};
        return Outcome{.kind = OutcomeKind::delivered};
    };
    const RedriveReport report = redrive("all.dlq.v1");
    EXPECT_EQ(report.problem, "");
    EXPECT_EQ(report.redrive.published, 300);
    EXPECT_EQ(report.redrive.failed, 1);
    EXPECT_EQ(letters.at(id).detail.letter.retry_count, 1);
}

TEST_F(RedriveTest, WhereTooManyTopicsTakeNothingItEnds) {
    const int topics = static_cast<int>(kMaxSkippedTopics) + 50;
    for (int i = 0; i < topics; ++i) {
        const std::string id = letters.add("gone-" + std::to_string(i));
        letters.change(id, [](FakeLetters::Row& row) { row.detail.letter.topic = "all.dlq.v1"; });
    }
    replayer.answer = [](const Record&) { return Outcome{.kind = OutcomeKind::retryable, .code = "UNKNOWN_TOPIC"}; };
    const RedriveReport report = redrive("all.dlq.v1");
    EXPECT_TRUE(
        report.problem.starts_with("more than 100 topics accepted no message; messages for topic gone-0 were skipped"))
        << report.problem;
}

/// The process that died may have published it: that this one sent nothing does not take that back.
TEST_F(RedriveTest, WhatWasTakenOverAndNotTriedStaysInDoubt) {
    const auto ids = add(2);
    ASSERT_TRUE(
        letters.begin_retry(std::span(ids.data(), 1), {"gone", "ops", std::chrono::seconds(1)}).value()[0].letter);
    letters.advance(std::chrono::seconds(2));
    replayer.answer = [](const Record&) {
        return Outcome{.kind = OutcomeKind::retryable, .code = "UNREACHABLE", .not_attempted = true};
    };
    redrive();
    const auto taken_over = letters.at(ids[0]).detail.letter;
    EXPECT_EQ(taken_over.status, LetterStatus::retrying);
    EXPECT_EQ(taken_over.retry_count, 1);
    EXPECT_TRUE(taken_over.in_doubt);
    EXPECT_EQ(letters.at(ids[1]).detail.letter.retry_count, 0);
}

/// What could not be put back into its lane is counted by the thread that publishes, the refused ones by the one that
/// records. For ThreadSanitizer: both at the same time, many times.
TEST_F(RedriveTest, TwoThreadsSayWhyTheyDidNotTry) {
    constexpr int kOfEach = 20;
    ManagerOptions options = quick();
    options.page = kOfEach;
    options.replay_topics = {"orders"};
    for (int round = 0; round < 100; ++round) {
        FakeLetters store;
        for (int i = 0; i < kOfEach; ++i) store.add("memories");
        for (int i = 0; i < kOfEach; ++i) store.add_of_lane("memories", "memory");
        std::atomic<int> ends{0};
        std::atomic<bool> found{false};
        const auto wait_until = [](const auto& holds) {
            const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
            while (!holds() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
        };
        store.fault = [&](int, std::string_view call) {
            if (call == "next_of_redrive" && store.calls_of(call) == 2) wait_until([&] { return ends == 1; });
            if (call == "end_of_redrive_page" && ++ends == 1) wait_until([&] { return found.load(); });
            if (call == "find") found = true;
            return call == "return_to_lane" ? Fault::ambiguous_not_done : Fault::none;
        };
        Manager other(options, store, &replayer, log);
        const RedriveReport report = other.retry_all("memories", "ops").value();
        ASSERT_EQ(report.not_tried, 2 * kOfEach);
        ASSERT_TRUE(report.not_tried_reason.find("kafka.replay_topics") != std::string::npos ||
                    report.not_tried_reason.find("answer was lost") != std::string::npos)
            << report.not_tried_reason;
    }
}

TEST_F(RedriveTest, ForAPersonWhoStopsItItIsOver) {
    ManagerOptions options = quick();
    options.close_ends_redrives = true;
    Manager command(options, letters, &replayer, log);
    add(2'500);
    std::atomic<int> batches{0};
    replayer.before = [&] {
        if (++batches == 2) command.close();
    };
    const RedriveReport report = command.retry_all("orders", "ops").value();
    EXPECT_EQ(report.problem, "it was stopped");
    EXPECT_TRUE(report.redrive.finished);
    EXPECT_LT(report.redrive.published, 2'500);
    EXPECT_EQ(static_cast<std::int64_t>(replayer.arrived().size()), report.redrive.published);
    EXPECT_EQ(manager.resume_abandoned().value(), 0) << "nobody resumes it";
    EXPECT_EQ(redrive("orders").redrive.published, 2'500 - report.redrive.published) << "but when asked again";
}

TEST_F(RedriveTest, OneThatCouldNotBeClosedIsSaidToResume) {
    add(10);
    letters.fault = [](int, std::string_view call) { return call == "close_redrive" ? Fault::retryable : Fault::none; };
    const RedriveReport report = redrive();
    EXPECT_EQ(report.redrive.published, 10);
    const std::string told = how_it_ended(report);
    EXPECT_NE(told.find("resumes by itself"), std::string::npos) << told;
    EXPECT_EQ(told.find("can be retried"), std::string::npos) << told;
}

/// A header of the record names its origin: whoever writes to a dead-letter topic chooses where a retry publishes.
TEST(ReplayTopicsTest, NothingGoesToATopicThatIsNotAllowed) {
    FakeLetters letters;
    FakeReplayer replayer;
    RecordingLog log;
    ManagerOptions options = quick();
    options.replay_topics = {"orders", "pay.*"};
    Manager manager{options, letters, &replayer, log};
    for (const char* topic : {"orders", "pay.eu", "secrets", "secrets"}) {
        letters.change(letters.add(topic), [](FakeLetters::Row& row) { row.detail.letter.topic = "all.dlq.v1"; });
    }
    const std::string evil = letters.ids().back();

    const auto planned = manager.plan("all.dlq.v1");
    ASSERT_TRUE(planned);
    ASSERT_EQ(planned->size(), 3U);
    EXPECT_EQ(planned->at(0).destination.topic, "secrets");
    EXPECT_EQ(planned->at(0).destination.letters, 2);
    EXPECT_NE(planned->at(0).refused.find("kafka.replay_topics"), std::string::npos) << planned->at(0).refused;
    EXPECT_EQ(planned->at(1).refused, "");
    EXPECT_EQ(planned->at(2).refused, "");

    const RetryReport alone = manager.retry(evil, "ops");
    EXPECT_EQ(alone.answer, RetryAnswer::conflict);
    EXPECT_NE(alone.message.find("kafka.replay_topics"), std::string::npos) << alone.message;
    const auto all = manager.retry_all("all.dlq.v1", "ops");
    ASSERT_TRUE(all);
    EXPECT_EQ(all->redrive.published, 2);
    EXPECT_EQ(all->not_tried, 2);
    EXPECT_NE(all->not_tried_reason.find("topic secrets"), std::string::npos) << all->not_tried_reason;
    for (const Record& record : replayer.arrived()) EXPECT_NE(record.topic, "secrets");
    EXPECT_EQ(letters.at(evil).detail.letter.status, LetterStatus::pending) << "it did not count";
}

TEST(ReplayTopicsTest, WithoutPatternsEveryTopicIsAllowedThatIsNotForDeadLetters) {
    FakeLetters letters;
    FakeReplayer replayer;
    RecordingLog log;
    Manager manager{quick(), letters, &replayer, log};
    for (const char* topic : {"anything", "loop.dlq.v1"}) {
        letters.change(letters.add(topic), [](FakeLetters::Row& row) { row.detail.letter.topic = "all.dlq.v1"; });
    }
    const auto planned = manager.plan("all.dlq.v1");
    ASSERT_TRUE(planned);
    ASSERT_EQ(planned->size(), 2U);
    EXPECT_EQ(planned->at(0).refused, "");
    EXPECT_NE(planned->at(1).refused, "");
}

/// As of a caller who may send to `topic` only.
SendRule only_to(const std::string& topic) {
    return [topic](const store::Letter& letter) -> std::string {
        return letter.provenance.original_topic == topic ? "" : "not for this caller";
    };
}

TEST_F(RedriveTest, ACallersRuleDecidesWhatItSends) {
    const std::string own = letters.add("orders");
    const std::string foreign = letters.add("orders");
    letters.change(foreign, [](auto& row) { row.detail.letter.provenance.original_topic = "payments"; });
    const RetryReport alone = manager.retry(foreign, "olga", only_to("orders"));
    EXPECT_EQ(alone.answer, RetryAnswer::conflict);
    EXPECT_EQ(alone.message, "message is not retryable: not for this caller");
    const RedriveReport all = manager.retry_all("orders.dlq.v1", "olga", only_to("orders")).value();
    EXPECT_EQ(all.redrive.published, 1);
    EXPECT_EQ(all.not_tried, 1);
    EXPECT_EQ(all.not_tried_reason, "not for this caller");
    const auto arrived = replayer.arrived();
    ASSERT_EQ(arrived.size(), 1U);
    EXPECT_EQ(arrived[0].topic, "orders");
    EXPECT_EQ(letters.at(own).detail.letter.status, LetterStatus::resolved);
    const auto kept = letters.at(foreign).detail.letter;
    EXPECT_EQ(kept.status, LetterStatus::pending);
    EXPECT_EQ(kept.retry_count, 0);
    EXPECT_EQ(manager.retry(foreign, "ada").answer, RetryAnswer::resolved);
}

TEST_F(RedriveTest, WithARuleItIsNotResumed) {
    add(2'500);
    Manager ending(quick(), letters, &replayer, log);
    std::atomic<int> batches{0};
    replayer.before = [&] {
        if (++batches == 2) ending.close();
    };
    const RedriveReport report = ending.retry_all("orders", "olga", only_to("orders")).value();
    EXPECT_EQ(report.problem, "it was stopped");
    EXPECT_LT(report.redrive.published, 2'500);
    EXPECT_EQ(manager.resume_abandoned().value(), 0) << "whoever resumes it does not know the rule";
}

}  // namespace
}  // namespace deliverd::deadletter
