// Retries of whole topics that another process began, and answers of the store that were lost.
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "deadletter/testing/redrive_fixture.h"

namespace deliverd::deadletter {
namespace {

using Fault = FakeLetters::Fault;
using store::LetterStatus;

constexpr const char* kTopic = "orders.dlq.v1";

class ResumedRedriveTest : public RedriveTest {
protected:
    static Outcome away() {
        return {.kind = OutcomeKind::retryable, .code = "BROKER_UNREACHABLE", .not_attempted = true};
    }
    /// A process began it, and died before the first page.
    void abandon(const std::string& topic = kTopic) {
        ASSERT_TRUE(letters.open_redrive(topic, "gone", "ops", std::chrono::seconds(1)).value());
        letters.advance(std::chrono::seconds(2));
    }
    std::size_t abandoned() { return letters.abandoned_redrives().value().size(); }
    std::size_t keys_arrived() {
        std::set<std::string> keys;
        for (const Record& record : replayer.arrived()) keys.insert(record.key.value_or(""));
        return keys.size();
    }
};

TEST_F(ResumedRedriveTest, WithoutABrokerItIsLeftForTheNextTime) {
    const auto ids = add(1'000);
    abandon();
    replayer.is_reachable = false;
    for (int turn = 1; turn <= 3; ++turn) {
        EXPECT_EQ(manager.resume_abandoned().value(), 0);
        EXPECT_EQ(abandoned(), 1U) << "it was promised to resume";
        EXPECT_EQ(log.count(LogLevel::warn), turn);
    }
    EXPECT_EQ(letters.calls_of("next_of_redrive"), 0) << "nothing is begun in vain";
    replayer.is_reachable = true;
    EXPECT_EQ(manager.resume_abandoned().value(), 1);
    EXPECT_EQ(abandoned(), 0U);
    EXPECT_EQ(replayer.arrived().size(), 1'000U);
    EXPECT_EQ(count(LetterStatus::resolved, ids), 1'000U);
    EXPECT_EQ(log.count(LogLevel::warn), 3);
}

TEST_F(ResumedRedriveTest, OnlyAProcessWithKafkaResumesATopicOfKafka) {
    const auto ids = add(3);
    abandon();
    ManagerOptions alone = quick();
    alone.dead_letter_pattern.clear();
    Manager stand_alone(alone, letters, &replayer, log);
    EXPECT_EQ(stand_alone.resume_abandoned().value(), 0);
    Manager unconnected(quick(), letters, nullptr, log);
    EXPECT_EQ(unconnected.resume_abandoned().value(), 0);
    EXPECT_EQ(abandoned(), 1U);
    // Also where lanes have letters of the same name.
    letters.topic_counts = {{.topic = kTopic, .source = "kafka", .pending = 3},
                            {.topic = kTopic, .source = "lane:x", .pending = 1}};
    EXPECT_EQ(unconnected.resume_abandoned().value(), 0);
    EXPECT_EQ(manager.resume_abandoned().value(), 1);
    EXPECT_EQ(count(LetterStatus::resolved, ids), 3U);
}

TEST_F(ResumedRedriveTest, OneThatFailsDoesNotKeepTheOthers) {
    for (const char* topic : {"a", "b", "c"}) abandon(topic);
    letters.fault = [this](int, std::string_view call) {
        return call == "open_redrive" && letters.calls_of(call) == 4 ? Fault::permanent : Fault::none;
    };
    const auto resumed = manager.resume_abandoned();
    ASSERT_FALSE(resumed);
    EXPECT_EQ(resumed.error().code, "db_error");
    EXPECT_EQ(letters.calls_of("open_redrive"), 6);
    EXPECT_EQ(abandoned(), 1U) << "the first";
}

TEST_F(ResumedRedriveTest, OneThatAnotherProcessTookIsNotCounted) {
    abandon("a");
    bool taken = false;
    letters.fault = [&](int, std::string_view call) {
        if (call == "open_redrive" && !std::exchange(taken, true)) {
            EXPECT_TRUE(letters.open_redrive("a", "another", "ops", std::chrono::seconds(30)).value());
        }
        return Fault::none;
    };
    EXPECT_EQ(manager.resume_abandoned().value(), 0);
}

TEST_F(ResumedRedriveTest, AfterAStopNoOtherIsResumed) {
    abandon("a");
    abandon("b");
    letters.fault = [this](int, std::string_view call) {
        if (call == "next_of_redrive") manager.close();
        return Fault::none;
    };
    const auto before = letters.calls_of("open_redrive");
    EXPECT_TRUE(manager.resume_abandoned());
    EXPECT_EQ(letters.calls_of("open_redrive") - before, 1);
}

TEST_F(ResumedRedriveTest, OnlyWhatThisRunDidIsTold) {
    class Told final : public RetryObserver {
    public:
        void on_redrive(std::int64_t published, std::int64_t failed, std::int64_t in_doubt) override {
            counts = {published, failed, in_doubt};
        }
        std::vector<std::int64_t> counts;
    } told;
    const auto ids = add(9);
    ASSERT_TRUE(letters.open_redrive(kTopic, "gone", "ops", std::chrono::seconds(1)).value());
    ASSERT_TRUE(
        letters.next_of_redrive(kTopic, {"gone", "ops", std::chrono::seconds(1)}, {.letters = 6, .bytes = 1'000'000}));
    const std::vector<store::RetryEnd> ends = {
        {ids[0], store::RetryResult::published}, {ids[1], store::RetryResult::failed},
        {ids[2], store::RetryResult::failed},    {ids[3], store::RetryResult::in_doubt},
        {ids[4], store::RetryResult::in_doubt},  {ids[5], store::RetryResult::in_doubt}};
    EXPECT_EQ(letters.end_of_redrive_page(kTopic, "gone", "ops", ends).value(), 6);
    letters.advance(std::chrono::seconds(2));
    replayer.answer = [](const Record& record) {
        if (record.key == "key-7") return Outcome{.kind = OutcomeKind::permanent};
        return Outcome{.kind = record.key == "key-8" ? OutcomeKind::ambiguous : OutcomeKind::delivered};
    };
    manager.observe(told);
    EXPECT_EQ(manager.resume_abandoned().value(), 1);
    EXPECT_EQ(told.counts, (std::vector<std::int64_t>{1, 1, 1}));
}

TEST_F(ResumedRedriveTest, ABrokerThatGoesAwayInTheMiddleIsWaitedFor) {
    const auto ids = add(1'000);
    abandon();
    std::size_t left = 250;
    replayer.answer = [&](const Record&) {
        if (left == 0) return away();
        --left;
        return Outcome{.kind = OutcomeKind::delivered};
    };
    for (int turn = 0; turn < 20 && abandoned() > 0; ++turn) {
        EXPECT_EQ(manager.resume_abandoned().value(), 1);
        EXPECT_EQ(replayer.arrived().size(), count(LetterStatus::resolved, ids));
        if (left == 0) left = 250;
    }
    EXPECT_EQ(abandoned(), 0U);
    EXPECT_EQ(replayer.arrived().size(), 1'000U) << "each once";
    EXPECT_EQ(keys_arrived(), 1'000U);
}

TEST_F(ResumedRedriveTest, ABrokerThatGoesAwayWhenAllIsReadIsWaitedForToo) {
    const auto ids = add(300);
    abandon();
    replayer.answer = [&](const Record&) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (letters.calls_of("next_of_redrive") < 4 && std::chrono::steady_clock::now() < deadline) {
            std::this_thread::yield();  // three pages, and the empty one that ends the reading
        }
        return away();
    };
    EXPECT_EQ(manager.resume_abandoned().value(), 1);
    EXPECT_EQ(letters.calls_of("next_of_redrive"), 4);
    EXPECT_EQ(abandoned(), 1U) << "nothing was sent";
    replayer.answer = [](const Record&) { return Outcome{.kind = OutcomeKind::delivered}; };
    EXPECT_EQ(manager.resume_abandoned().value(), 1);
    EXPECT_EQ(abandoned(), 0U);
    EXPECT_EQ(keys_arrived(), 300U);
}

TEST_F(ResumedRedriveTest, ForWhomeverAskedItIsOverWithoutABroker) {
    const auto ids = add(300);
    replayer.answer = [](const Record&) { return away(); };
    EXPECT_TRUE(redrive().redrive.finished);
    EXPECT_EQ(abandoned(), 0U);
    EXPECT_EQ(count(LetterStatus::pending, ids), 300U);
}

TEST_F(ResumedRedriveTest, AStoreThatFailsEndsItForNowOnly) {
    add(300);
    abandon();
    letters.fault = [&](int, std::string_view call) {
        return call == "next_of_redrive" ? Fault::permanent : Fault::none;
    };
    EXPECT_EQ(manager.resume_abandoned().value(), 1);
    letters.fault = [](int, std::string_view) { return Fault::none; };
    EXPECT_EQ(abandoned(), 1U);
    EXPECT_EQ(manager.resume_abandoned().value(), 1);
    EXPECT_EQ(replayer.arrived().size(), 300U);
}

TEST_F(ResumedRedriveTest, OfASpoolThatOthersHaveItIsLeftToThem) {
    abandon("hooks");
    letters.topic_counts = {{.topic = "hooks", .source = "spool:hooks", .pending = 3}};
    letters.topic_counts.push_back({.topic = "others", .source = "lane:others", .pending = 3});
    EXPECT_EQ(manager.resume_abandoned().value(), 0);
    EXPECT_EQ(abandoned(), 1U);
    letters.topic_counts[0].source = "lane:hooks";
    EXPECT_EQ(manager.resume_abandoned().value(), 1);
    EXPECT_EQ(abandoned(), 0U);
}

TEST_F(ResumedRedriveTest, OfALaneItIsResumedWhereverLettersMayBeSent) {
    const std::string id = letters.add_of_lane("hooks", "memory");
    abandon("hooks");
    letters.topic_counts = {{.topic = "hooks", .source = "lane:hooks", .pending = 1}};
    ManagerOptions options = quick();
    options.replay_topics = {"orders"};
    Manager other(options, letters, nullptr, log);
    EXPECT_EQ(other.resume_abandoned().value(), 1);
    EXPECT_EQ(letters.at(id).detail.letter.status, LetterStatus::resolved);
}

TEST_F(ResumedRedriveTest, ABrokerThatGoesAwayWithinTheLastBatchIsWaitedFor) {
    const auto ids = add(10);
    abandon();
    std::size_t left = 4;
    replayer.answer = [&](const Record&) {
        if (left == 0) return away();
        --left;
        return Outcome{.kind = OutcomeKind::delivered};
    };
    EXPECT_EQ(manager.resume_abandoned().value(), 1);
    EXPECT_EQ(abandoned(), 1U) << "six were not sent";
    left = 6;
    EXPECT_EQ(manager.resume_abandoned().value(), 1);
    EXPECT_EQ(abandoned(), 0U);
    EXPECT_EQ(replayer.arrived().size(), 10U) << "each once";
}

/// What was given back is recorded; the release is not.
TEST_F(ResumedRedriveTest, AStoreThatGoesAwayWithTheBrokerLosesNothing) {
    const auto ids = add(300);
    abandon();
    replayer.answer = [](const Record&) { return away(); };
    letters.fault = [](int, std::string_view call) {
        return call == "release_redrive" ? Fault::retryable : Fault::none;
    };
    EXPECT_EQ(manager.resume_abandoned().value(), 1);
    replayer.answer = FakeReplayer().answer;
    letters.advance(std::chrono::minutes(1));
    EXPECT_EQ(manager.resume_abandoned().value(), 1);
    EXPECT_EQ(count(LetterStatus::resolved, ids), 300U);
}

TEST_F(ResumedRedriveTest, AnEndWhoseAnswerWasLostIsNoLoss) {
    const auto ids = add(300);
    int ends = 0;
    letters.fault = [&](int, std::string_view call) {
        return call == "end_of_redrive_page" && ++ends == 1 ? Fault::ambiguous_done : Fault::none;
    };
    const RedriveReport report = redrive();
    EXPECT_EQ(report.problem, "");
    EXPECT_EQ(report.redrive.published, 300);
    EXPECT_EQ(report.redrive.in_doubt, 0);
    EXPECT_TRUE(report.redrive.finished);
    EXPECT_EQ(count(LetterStatus::resolved, ids), 300U);
    EXPECT_EQ(log.count(LogLevel::error), 0);
}

TEST_F(ResumedRedriveTest, OfALaneTheLettersTellWhetherALostAnswerWasAYes) {
    for (const Fault fault : {Fault::ambiguous_done, Fault::ambiguous_not_done}) {
        std::vector<std::string> ids;
        for (int i = 0; i < 5; ++i) ids.push_back(letters.add_of_lane("memories", "memory"));
        letters.fault = [&](int, std::string_view call) { return call == "return_to_lane" ? fault : Fault::none; };
        const bool done = fault == Fault::ambiguous_done;
        const RedriveReport report = redrive("memories");
        EXPECT_EQ(report.redrive.published, done ? 5 : 0);
        EXPECT_EQ(report.not_tried, done ? 0 : 5);
        EXPECT_EQ(report.redrive.in_doubt, 0);
        EXPECT_EQ(report.problem.empty(), done) << report.problem;
        EXPECT_EQ(count(done ? LetterStatus::resolved : LetterStatus::pending, ids), 5U);

        const std::string one = letters.add_of_lane("memories", "memory");
        const RetryReport retry = manager.retry(one, "ops");
        EXPECT_EQ(retry.answer, done ? RetryAnswer::resolved : RetryAnswer::not_published) << retry.message;
        EXPECT_EQ(letters.at(one).detail.letter.retry_count, done ? 1 : 0);
        EXPECT_FALSE(letters.at(one).detail.letter.in_doubt);
        letters.fault = [](int, std::string_view) { return Fault::none; };
        redrive("memories");
    }
    EXPECT_EQ(log.count(LogLevel::error), 0);
}

}  // namespace
}  // namespace deliverd::deadletter
