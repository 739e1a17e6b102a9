// A retry of all of a topic, over a store and a broker in memory that can fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <map>

#include "deadletter/testing/fake_source.h"
#include "deadletter/testing/redrive_fixture.h"

namespace deliverd::deadletter {
namespace {

using Fault = FakeLetters::Fault;
using store::LetterStatus;

TEST_F(RedriveTest, OfAnEmptyTopicPublishesNone) {
    const RedriveReport report = redrive("nothing.dlq.v1");
    EXPECT_EQ(report.redrive.published, 0);
    EXPECT_TRUE(report.redrive.finished);
    EXPECT_EQ(report.problem, "");
}

TEST_F(RedriveTest, PublishesEachOnceInOrderWhicheverNameTheTopicHas) {
    const auto ids = add(2'500);
    const RedriveReport report = redrive("orders");
    EXPECT_EQ(report.redrive.published, 2'500);
    EXPECT_EQ(count(LetterStatus::resolved, ids), 2'500U);
    const auto arrived = replayer.arrived();
    ASSERT_EQ(arrived.size(), 2'500U);
    for (std::size_t i = 0; i < arrived.size(); ++i) EXPECT_EQ(arrived[i].key, "key-" + std::to_string(i + 1));
    EXPECT_EQ(letters.largest_page(), 100);
    EXPECT_LE(letters.most_begun(), 800U) << "pages in flight are bounded";
}

TEST_F(RedriveTest, LeavesOutWhatIsNotRetryable) {
    const auto ids = add(4);
    letters.change(ids[0], [](FakeLetters::Row& row) { row.detail.letter.status = LetterStatus::dead; });
    letters.change(ids[1], [](FakeLetters::Row& row) { row.detail.letter.status = LetterStatus::resolved; });
    letters.change(ids[2], [](FakeLetters::Row& row) { row.detail.letter.retry_count = 3; });
    const RedriveReport report = redrive();
    EXPECT_EQ(report.redrive.published, 1);
    EXPECT_EQ(replayer.arrived().size(), 1U);
}

TEST_F(RedriveTest, WhatIsRefusedStaysAsItWas) {
    const std::string id = letters.add("x.dlq.v1");
    const RedriveReport report = redrive("x.dlq.v1");
    EXPECT_EQ(report.redrive.published, 0);
    EXPECT_EQ(report.not_tried, 1);
    EXPECT_NE(report.not_tried_reason.find("itself for dead letters"), std::string::npos) << report.not_tried_reason;
    EXPECT_EQ(letters.at(id).detail.letter.status, LetterStatus::pending);
    EXPECT_EQ(letters.at(id).detail.letter.retry_count, 0);
    EXPECT_TRUE(replayer.batches().empty());
}

TEST_F(RedriveTest, IsToldOfWithWhatTheRunItselfDid) {
    class Told final : public RetryObserver {
    public:
        void on_redrive(std::int64_t published, std::int64_t, std::int64_t) override { runs.push_back(published); }
        std::vector<std::int64_t> runs;
    } told;
    manager.observe(told);
    add(3);
    redrive();
    add(2);
    redrive();
    EXPECT_EQ(told.runs, (std::vector<std::int64_t>{3, 2}));
}

TEST_F(RedriveTest, ReadingAndRecordingGoOnWhilePublishing) {
    add(1'000);
    std::atomic<int> calls{0};
    replayer.before = [&] {
        if (++calls == 1) {
            // The first page is at the broker: others are read meanwhile, as many as may be in flight.
            EXPECT_TRUE(eventually([&] { return letters.calls_of("next_of_redrive") >= 8; }));
        } else if (calls == 2) {
            EXPECT_TRUE(eventually([&] { return letters.calls_of("end_of_redrive_page") >= 1; }));
        }
    };
    EXPECT_EQ(redrive().redrive.published, 1'000);
    EXPECT_LE(letters.most_begun(), 800U);
    EXPECT_GT(std::ranges::max(replayer.batches()), 100U) << "what waited goes out at once";
}

TEST_F(RedriveTest, TakesSeveralPagesAtOnceAsFarAsThereIsRoom) {
    ManagerOptions options = quick();
    options.pages_at_once = 4;
    options.pages_in_flight = 6;
    Manager other(options, letters, &replayer, log);
    add(3'000);
    std::atomic<int> calls{0};
    replayer.before = [&] {
        if (++calls != 1) return;
        EXPECT_TRUE(eventually([&] { return letters.most_begun() == 600; })) << "four and two";
    };
    EXPECT_EQ(other.retry_all("orders", "ops").value().redrive.published, 3'000);
    EXPECT_EQ(letters.largest_page(), 400);
    EXPECT_EQ(letters.most_begun(), 600U);
}

TEST_F(RedriveTest, LargeLettersMakeSmallPages) {
    add(100, 1024UL * 1024);
    EXPECT_EQ(redrive().redrive.published, 100);
    EXPECT_LE(letters.most_bytes(), kMaxRedriveBytes + 1024UL * 1024) << "and the one with which it is reached";
}

TEST_F(RedriveTest, WithoutABrokerItEndsAndNothingIsCounted) {
    const auto ids = add(1'000);
    replayer.answer = [](const Record&) {
        return Outcome{.kind = OutcomeKind::retryable, .code = "UNREACHABLE", .not_attempted = true};
    };
    const RedriveReport report = redrive();
    EXPECT_NE(report.problem.find("UNREACHABLE"), std::string::npos);
    EXPECT_EQ(report.redrive.published, 0);
    EXPECT_EQ(count(LetterStatus::pending, ids), 1'000U) << "all as before";
    EXPECT_EQ(replayer.batches().size(), 1U) << "one try is enough";
    EXPECT_TRUE(report.redrive.finished) << "so that the next one begins at the beginning";

    replayer.answer = FakeReplayer().answer;
    EXPECT_EQ(redrive().redrive.published, 1'000);
}

TEST_F(RedriveTest, FailuresOfSingleLettersDoNotEndIt) {
    const auto ids = add(300);
    letters.change(ids[4], [](FakeLetters::Row& row) { row.detail.letter.retry_count = 2; });
    replayer.answer = [](const Record& record) {
        if (record.key == "key-5") return Outcome{.kind = OutcomeKind::permanent, .code = "TOO_LARGE"};
        if (record.key == "key-6") return Outcome{.kind = OutcomeKind::ambiguous, .code = "TIMED_OUT"};
        return Outcome{.kind = OutcomeKind::delivered};
    };
    const RedriveReport report = redrive();
    EXPECT_EQ(report.problem, "");
    EXPECT_EQ(report.redrive.published, 298);
    EXPECT_EQ(report.redrive.failed, 1);
    EXPECT_EQ(report.redrive.in_doubt, 1);
    EXPECT_EQ(letters.at(ids[4]).detail.letter.status, LetterStatus::dead) << "that was its third";
    EXPECT_EQ(letters.at(ids[5]).detail.letter.status, LetterStatus::retrying);
}

TEST_F(RedriveTest, LanesRowsGoBack) {
    std::vector<std::string> ids;
    for (int i = 0; i < 5; ++i) ids.push_back(letters.add_of_lane("memories", "memory"));
    letters.change(ids[2], [](FakeLetters::Row& row) { row.lane_row_gone = true; });
    const RedriveReport report = redrive("memories");
    EXPECT_EQ(report.redrive.published, 4);
    EXPECT_EQ(report.redrive.failed, 1);
    EXPECT_EQ(letters.calls_of("return_to_lane"), 1) << "one call a page";
    EXPECT_TRUE(replayer.batches().empty());
}

TEST_F(RedriveTest, StandAloneResolvesAll) {
    ManagerOptions alone = quick();
    alone.dead_letter_pattern.clear();
    Manager other(alone, letters, nullptr, log);
    const auto ids = add(250);
    for (const std::string& id : ids) {
        if (id != ids.back()) letters.change(id, [](FakeLetters::Row& row) { row.detail.letter.topic.reset(); });
    }
    EXPECT_EQ(other.retry_all("orders", "ops").value().redrive.published, 249);
    EXPECT_EQ(count(LetterStatus::resolved, ids), 249U);
    EXPECT_EQ(count(LetterStatus::pending, ids), 1U) << "the one that came from Kafka";
}

TEST_F(RedriveTest, WithoutAReplayerItSaysSo) {
    Manager other(quick(), letters, nullptr, log);
    const auto ids = add(3);
    const RedriveReport report = other.retry_all("orders", "ops").value();
    EXPECT_NE(report.problem.find("no connection to Kafka"), std::string::npos);
    EXPECT_EQ(count(LetterStatus::pending, ids), 3U);
}

TEST_F(RedriveTest, WithoutKafkaTheRedriveOfAProcessThatDiedIsLeftToOneThatHasIt) {
    const auto ids = add(3);
    ASSERT_TRUE(letters.open_redrive("orders", "gone", "ops", std::chrono::seconds(1)).value());
    letters.advance(std::chrono::seconds(2));
    ManagerOptions alone = quick();
    alone.dead_letter_pattern.clear();
    Manager other(alone, letters, nullptr, log);
    EXPECT_EQ(other.resume_abandoned().value(), 0);
    EXPECT_EQ(count(LetterStatus::pending, ids), 3U);
    EXPECT_EQ(manager.resume_abandoned().value(), 1);
    EXPECT_EQ(count(LetterStatus::resolved, ids), 3U);
}

TEST_F(RedriveTest, OneAtATime) {
    add(10);
    std::promise<void> go;
    std::atomic<bool> publishing{false};
    replayer.before = [&] {
        publishing = true;
        go.get_future().wait();
    };
    auto first = std::async(std::launch::async, [&] { return redrive(); });
    ASSERT_TRUE(eventually([&] { return publishing.load(); }));
    EXPECT_TRUE(redrive().under_way_elsewhere);
    go.set_value();
    EXPECT_EQ(first.get().redrive.published, 10);
}

TEST_F(RedriveTest, StopEndsItAndAnotherProcessFinishesIt) {
    add(2'500);
    std::atomic<int> batches{0};
    std::future<void> stopping;
    replayer.before = [&] {
        if (++batches != 2) return;
        stopping = std::async(std::launch::async, [&] { manager.stop(); });
        EXPECT_TRUE(eventually([&] { return manager.retry("unknown", "ops").answer == RetryAnswer::unavailable; }))
            << "the door is closed";
    };
    const RedriveReport report = redrive();
    stopping.get();
    EXPECT_FALSE(report.redrive.finished);
    EXPECT_NE(report.problem, "");
    EXPECT_LT(report.redrive.published, 2'500);
    EXPECT_EQ(static_cast<std::int64_t>(replayer.arrived().size()), report.redrive.published);

    Manager next(quick(), letters, &replayer, log);
    EXPECT_EQ(next.resume_abandoned().value(), 1) << "it was given up, and need not wait for its lease";
    EXPECT_EQ(replayer.arrived().size(), 2'500U) << "each once";
    EXPECT_EQ(next.resume_abandoned().value(), 0);
}

TEST_F(RedriveTest, WhoLosesTheRedriveEndsWhatItBegan) {
    add(1'000);
    std::atomic<int> batches{0};
    replayer.before = [&] {
        if (++batches != 1) return;
        EXPECT_TRUE(eventually([&] { return letters.most_begun() == 800; })) << "else a page that is begun renews it";
        letters.advance(std::chrono::minutes(1));  // a process that was held up: its lease has run out
        EXPECT_TRUE(letters.open_redrive("orders.dlq.v1", "another", "ops", std::chrono::seconds(30)).value());
    };
    const RedriveReport report = redrive();
    EXPECT_FALSE(report.redrive.finished);
    EXPECT_NE(report.problem, "");
    EXPECT_EQ(letters.calls_of("close_redrive"), 0) << "it is not ours to close";
}

TEST_F(RedriveTest, WhatWaitedForItsWholeLeaseIsNotPublished) {
    const auto clock = std::make_shared<HandClock>();
    ManagerOptions options = quick();
    options.clock = clock;
    Manager other(options, letters, &replayer, log);
    const auto ids = add(1'000);
    std::atomic<int> batches{0};
    letters.fault = [&](int, std::string_view call) {
        // The first page is at the broker before the second is begun.
        const bool second = call == "next_of_redrive" && letters.calls_of(call) == 2;
        EXPECT_TRUE(!second || eventually([&] { return batches == 1; }));
        return Fault::none;
    };
    replayer.before = [&] {
        if (++batches != 1) return;
        EXPECT_TRUE(eventually([&] { return letters.calls_of("next_of_redrive") >= 8; })) << "others are begun";
        clock->move(options.retry_lease - options.publish_at_most);
    };
    const RedriveReport report = other.retry_all("orders", "ops").value();
    EXPECT_NE(report.problem.find("too slow"), std::string::npos) << report.problem;
    const auto sent = replayer.arrived().size();
    EXPECT_LT(sent, 1'000U);
    EXPECT_EQ(static_cast<std::int64_t>(sent), report.redrive.published);
    EXPECT_EQ(count(LetterStatus::resolved, ids), sent);
    EXPECT_EQ(count(LetterStatus::pending, ids), 1'000U - sent) << "as before";
    EXPECT_EQ(redrive().redrive.published, static_cast<std::int64_t>(1'000U - sent)) << "and can be retried";
}

TEST_F(RedriveTest, AStoreThatCannotBeginIsAFailure) {
    letters.fault = [](int, std::string_view) { return Fault::retryable; };
    const auto report = manager.retry_all("orders", "ops");
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().error_class, ErrorClass::retryable);
    EXPECT_FALSE(manager.resume_abandoned());
}

/// A process that dies at the n-th call of the store (all that come after fail as well), and another one that resumes
/// when the lease has run out: each letter arrives; twice only those whose end was not recorded, and these are counted.
TEST_F(RedriveTest, WhereverTheProcessDiesNothingIsLostAndDuplicatesAreCounted) {
    for (int nth = 1; nth <= 14; ++nth) {
        FakeLetters store;
        FakeReplayer broker;
        std::vector<std::string> ids;
        for (int i = 0; i < 450; ++i) ids.push_back(store.add("orders"));
        store.fault = [nth](int number, std::string_view) { return number >= nth ? Fault::retryable : Fault::none; };
        {
            Manager dying(quick(), store, &broker, log);
            static_cast<void>(dying.retry_all("orders", "ops"));  // nobody hears its answer
        }
        store.fault = [](int, std::string_view) { return Fault::none; };
        store.advance(std::chrono::minutes(1));
        Manager next(quick(), store, &broker, log);
        const auto rest = next.retry_all("orders", "ops");
        ASSERT_TRUE(rest);

        std::map<std::string, int> arrived;
        for (const Record& record : broker.arrived()) ++arrived[*record.key];
        EXPECT_EQ(arrived.size(), 450U) << nth;
        const auto twice = std::ranges::count_if(arrived, [](const auto& each) { return each.second > 1; });
        EXPECT_LE(twice, rest->redrive.taken_over) << nth;
        for (const std::string& id : ids) {
            EXPECT_EQ(store.at(id).detail.letter.status, LetterStatus::resolved) << nth;
            EXPECT_LE(store.at(id).detail.letter.retry_count, 2) << nth;
        }
    }
}

/// The same with one call that fails, of whatever kind: what is said to be published was.
TEST_F(RedriveTest, WhereverTheStoreFailsTheCountIsTrue) {
    for (const Fault kind : {Fault::retryable, Fault::permanent, Fault::ambiguous_not_done, Fault::ambiguous_done}) {
        for (int nth = 2; nth <= 10; ++nth) {
            FakeLetters store;
            FakeReplayer broker;
            for (int i = 0; i < 350; ++i) store.add("orders");
            store.fault = [&](int number, std::string_view) { return number == nth ? kind : Fault::none; };
            Manager other(quick(), store, &broker, log);
            const auto report = other.retry_all("orders", "ops");
            ASSERT_TRUE(report);
            EXPECT_LE(report->redrive.published, static_cast<std::int64_t>(broker.arrived().size())) << nth;
            if (report->problem.empty()) {
                EXPECT_EQ(report->redrive.published, 350) << nth;
            }
            // Nothing is stuck: what is left can be retried, at the latest when the leases have run out.
            store.fault = [](int, std::string_view) { return Fault::none; };
            store.advance(std::chrono::minutes(1));
            ASSERT_TRUE(other.resume_abandoned());
            ASSERT_TRUE(other.retry_all("orders", "ops"));
            std::map<std::string, int> arrived;
            for (const Record& record : broker.arrived()) ++arrived[*record.key];
            EXPECT_EQ(arrived.size(), 350U) << nth << " of kind " << static_cast<int>(kind);
        }
    }
}

}  // namespace
}  // namespace deliverd::deadletter
