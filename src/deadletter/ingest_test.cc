// The ingest, step by step.
#include "deadletter/ingest.h"

#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <string>

#include "deadletter/testing/ingest_fixture.h"

namespace deliverd::deadletter {
namespace {

using Fault = FakeLetters::Fault;

TEST_F(IngestTest, StoresWholeRecordsInOneTransactionAndThenCommits) {
    fill(3);
    source.topic[1].value.reset();
    source.topic[1].key = "";
    source.topic[2].value = "\xff not json";
    std::size_t committed_before_store = 99;
    letters.fault = [&](int, std::string_view) {
        committed_before_store = source.committed();
        return Fault::none;
    };
    ASSERT_TRUE(drained());
    EXPECT_EQ(letters.calls(), (std::vector<std::string>{"store"}));
    EXPECT_EQ(committed_before_store, 0U);
    const auto stored = letters.stored();
    ASSERT_EQ(stored.size(), 3U);
    EXPECT_EQ(stored[0].payload, "{\"n\":1}");
    EXPECT_EQ(stored[0].provenance.original_topic, "orders");
    EXPECT_EQ(stored[0].provenance.error_message, "boom 0");
    EXPECT_EQ(stored[0].record.headers.size(), 1U);
    EXPECT_EQ(stored[0].record.timestamp_ms, 1'000);
    EXPECT_EQ(stored[1].record.value, std::nullopt);
    EXPECT_EQ(stored[1].record.key, "");
    EXPECT_EQ(stored[1].payload, std::nullopt);
    EXPECT_EQ(stored[2].record.value, "\xff not json");
    EXPECT_EQ(stored[2].payload, std::nullopt);
    EXPECT_EQ(counts.ingested, 3U);
    EXPECT_EQ(counts.batches, 1U);
}

TEST_F(IngestTest, BatchesAreBoundedByRecordsAndBytes) {
    options.max_records = 10;
    options.max_bytes = 50;
    restarted();
    fill(25);  // 7 bytes each: 8 reach the bytes
    ASSERT_TRUE(drained());
    EXPECT_EQ(counts.batches, 4U);
    all_stored_once();
}

TEST_F(IngestTest, ALongValueIsCutAndMarked) {
    options.max_value_bytes = 5;
    restarted();
    source.topic = {record(0, "12345"), record(1, "[1,2,3]"), record(2, "1")};
    ASSERT_TRUE(drained());
    const auto stored = letters.stored();
    EXPECT_FALSE(stored[0].truncated);
    EXPECT_EQ(stored[0].payload, "12345");
    EXPECT_TRUE(stored[1].truncated);
    EXPECT_EQ(stored[1].record.value, "[1,2,");
    EXPECT_EQ(stored[1].payload, std::nullopt);
    EXPECT_EQ(counts.truncated, 1U);
}

TEST_F(IngestTest, CommitsNowAndThenAndWhenNothingComes) {
    options.max_records = 1;
    options.commit_every = std::chrono::seconds(1);
    restarted();
    fill(5);
    for (int i = 0; i < 5; ++i) ingest->step();
    EXPECT_EQ(source.commits(), 0) << "no time has passed";
    clock.move(std::chrono::seconds(1));
    source.topic.push_back(record(5));
    ingest->step();
    EXPECT_EQ(source.commits(), 1);
    source.topic.push_back(record(6));
    ingest->step();
    EXPECT_EQ(source.commits(), 1) << "not due again";
    ingest->step();
    EXPECT_EQ(source.commits(), 2);
    EXPECT_EQ(source.committed(), 7U);
    ingest->step();
    EXPECT_EQ(source.commits(), 2) << "there is nothing new to commit";
    EXPECT_EQ(counts.commits, 2);
}

TEST_F(IngestTest, ACommitThatFailedIsRepeated) {
    fill(1);
    source.commit_fails = true;
    ingest->step();
    ingest->step();
    EXPECT_EQ(counts.failed_commits, 1);
    source.commit_fails = false;
    ingest->step();
    EXPECT_EQ(source.committed(), 1U);
    EXPECT_EQ(counts.commits, 1);
}

TEST_F(IngestTest, ACrashBetweenStoringAndCommittingStoresOnce) {
    fill(20);
    source.commit_fails = true;
    ingest->step();
    EXPECT_EQ(letters.stored().size(), 20U);
    EXPECT_EQ(source.committed(), 0U);
    source.commit_fails = false;
    restarted();
    ASSERT_TRUE(drained());
    all_stored_once();
    EXPECT_EQ(counts.ingested, 20U);
    EXPECT_EQ(counts.repeated, 20U);
}

TEST_F(IngestTest, ARebalanceInTheMiddleStoresOnce) {
    options.max_records = 7;
    restarted();
    fill(40);
    int polls = 0;
    source.on_poll = [&] {
        if (++polls % 3 == 0 && polls < 12) source.rebalance();
    };
    ASSERT_TRUE(drained());
    all_stored_once();
}

TEST_F(IngestTest, WhileTheStoreIsAwayItPausesStaysAMemberAndLosesNothing) {
    fill(30);
    bool away = true;
    letters.fault = [&](int, std::string_view) { return away ? Fault::retryable : Fault::none; };
    while (clock.elapsed() < std::chrono::minutes(2)) ASSERT_TRUE(ingest->step());
    EXPECT_TRUE(source.paused());
    EXPECT_EQ(source.committed(), 0U);
    EXPECT_GT(source.polls_while_paused(), 100) << "a member that does not poll is taken for dead";
    EXPECT_LE(source.longest_wait(), options.poll_wait);
    EXPECT_EQ(counts.pauses, 1);
    EXPECT_GT(counts.failed, 10U);
    EXPECT_LT(counts.failed, 40U) << "ten seconds between tries, once it lasts";
    EXPECT_LE(log.count(LogLevel::warn), 6) << "told at first, and every half minute";
    EXPECT_GE(log.count(LogLevel::warn), 4);
    away = false;
    ASSERT_TRUE(drained());
    all_stored_once();
    EXPECT_EQ(counts.repeated, 0U) << "nothing was read again";
    EXPECT_EQ(counts.resumes, 1);
}

TEST_F(IngestTest, ASecondOutageIsOneOfItsOwn) {
    options.max_records = 1;
    restarted();
    fill(1);
    bool away = true;
    letters.fault = [&](int, std::string_view) { return away ? Fault::retryable : Fault::none; };
    while (clock.elapsed() < std::chrono::minutes(2)) ASSERT_TRUE(ingest->step());
    away = false;
    ASSERT_TRUE(drained());
    const auto told = log.count(LogLevel::warn);
    away = true;
    source.topic.push_back(record(1));
    const Duration since = clock.elapsed();
    const auto calls = letters.calls_of("store");
    ASSERT_TRUE(ingest->step());
    EXPECT_TRUE(source.paused());
    EXPECT_EQ(counts.pauses, 2);
    EXPECT_EQ(log.count(LogLevel::warn), told + 1);
    while (letters.calls_of("store") < calls + 2) ASSERT_TRUE(ingest->step());
    EXPECT_LT(clock.elapsed() - since, std::chrono::seconds(1)) << "the first wait is short again";
}

TEST_F(IngestTest, AnAnswerThatWasLostIsRepeatedAndStoredOnce) {
    fill(10);
    letters.fault = [](int number, std::string_view) { return number == 1 ? Fault::ambiguous_done : Fault::none; };
    ASSERT_TRUE(drained());
    all_stored_once();
    EXPECT_EQ(counts.repeated, 10U);
}

TEST_F(IngestTest, ARecordThatTheStoreRefusesIsStoredWithoutWhatItRefuses) {
    fill(100);
    letters.refuses = [](const store::NewLetter& letter) { return letter.record.offset == 37 && letter.payload; };
    ASSERT_TRUE(drained());
    all_stored_once();
    for (const store::NewLetter& letter : letters.stored()) {
        EXPECT_EQ(letter.payload.has_value(), letter.record.offset != 37);
        EXPECT_TRUE(letter.record.value) << "its bytes are whole";
    }
    EXPECT_EQ(counts.reduced, 1);
    EXPECT_EQ(log.count(LogLevel::error), 1);
    EXPECT_EQ(counts.pauses, 0);
    EXPECT_LT(letters.calls_of("store"), 30) << "found by halves";
}

TEST_F(IngestTest, SeveralThatAreRefusedForDifferentReasons) {
    fill(64);
    letters.refuses = [](const store::NewLetter& letter) {
        if (letter.record.offset == 0) return letter.provenance.error_message.size() > 4 && letter.payload.has_value();
        if (letter.record.offset == 31) return !letter.truncated;
        if (letter.record.offset == 63) return letter.payload.has_value();
        return false;
    };
    ASSERT_TRUE(drained());
    all_stored_once();
    EXPECT_EQ(counts.reduced, 3);
    for (const store::NewLetter& letter : letters.stored()) {
        if (letter.record.offset != 31) continue;
        EXPECT_EQ(letter.record.value, std::nullopt);
        EXPECT_EQ(letter.record.key, std::nullopt);
        EXPECT_NE(letter.provenance.error_message.find("orders.dlq.v1[0]@31"), std::string::npos);
        EXPECT_EQ(letter.provenance.original_topic, "orders");
    }
}

TEST_F(IngestTest, OfWhatIsRefusedNoMoreIsLeftOutThanMustBe) {
    const std::string words(400, 'x');
    for (int i = 0; i < 3; ++i) {
        source.topic.push_back(record(i));
        source.topic.back().headers = {{"error", words}};
    }
    letters.refuses = [&](const store::NewLetter& letter) {
        if (letter.record.offset == 0) return letter.provenance.error_message == words;
        return letter.record.offset == 1 && letter.payload.has_value();
    };
    ASSERT_TRUE(drained());
    all_stored_once();
    EXPECT_EQ(counts.reduced, 2);
    for (const store::NewLetter& letter : letters.stored()) {
        EXPECT_TRUE(letter.record.value) << letter.record.offset;
        EXPECT_EQ(letter.provenance.error_message == words, letter.record.offset > 0) << letter.record.offset;
        EXPECT_EQ(letter.payload.has_value(), letter.record.offset == 2) << letter.record.offset;
    }
}

TEST_F(IngestTest, AnOutageWhileOneIsStoredWithoutSomethingPausesToo) {
    fill(1);
    letters.refuses = [](const store::NewLetter& letter) { return letter.payload.has_value(); };
    letters.fault = [](int number, std::string_view) { return number == 3 ? Fault::retryable : Fault::none; };
    ASSERT_TRUE(ingest->step());
    EXPECT_TRUE(source.paused());
    EXPECT_EQ(letters.calls_of("store"), 3);
    EXPECT_EQ(counts.failed, 3U);
    ASSERT_TRUE(drained());
    all_stored_once();
    EXPECT_EQ(counts.reduced, 1);
}

TEST_F(IngestTest, WhenEvenTheBarestIsRefusedItIsNotTheRecordsFault) {
    fill(50);
    bool broken = true;  // a rule on the table that nothing can meet, say
    letters.refuses = [&](const store::NewLetter&) { return broken; };
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(ingest->step());
    EXPECT_TRUE(source.paused());
    EXPECT_TRUE(letters.stored().empty());
    broken = false;
    ASSERT_TRUE(drained());
    all_stored_once();
    for (const store::NewLetter& letter : letters.stored()) EXPECT_TRUE(letter.payload) << "whole again";
    EXPECT_EQ(counts.reduced, 0);
}

TEST_F(IngestTest, WhatIsWrongWithTheStoreIsNoRecordsFault) {
    fill(50);
    bool broken = true;  // a right or a table is missing: permanent, and it would refuse anything
    letters.fault = [&](int, std::string_view) { return broken ? Fault::permanent : Fault::none; };
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(ingest->step());
    EXPECT_TRUE(source.paused());
    EXPECT_EQ(counts.pauses, 1);
    EXPECT_EQ(letters.calls_of("store"), static_cast<int>(counts.failed));
    EXPECT_LT(counts.failed, 20U) << "nobody is looked for among the records";
    broken = false;
    ASSERT_TRUE(drained());
    all_stored_once();
    for (const store::NewLetter& letter : letters.stored()) EXPECT_TRUE(letter.payload);
    EXPECT_EQ(counts.reduced, 0);
}

TEST_F(IngestTest, ARefusalThatEndsBetweenTwoCallsStripsNothing) {
    for (const int refused : {1, 3, 5}) {
        source.topic.push_back(record(refused));
        int calls = 0;
        letters.refuses = [&](const store::NewLetter&) { return ++calls <= refused; };
        ASSERT_TRUE(drained());
        EXPECT_EQ(calls, refused + 1);
    }
    all_stored_once();
    for (const store::NewLetter& letter : letters.stored()) {
        EXPECT_TRUE(letter.payload) << letter.record.offset;
        EXPECT_TRUE(letter.record.value);
    }
    EXPECT_EQ(counts.reduced, 0);
}

TEST_F(IngestTest, AfterAnOutageARefusalIsAskedForAgain) {
    fill(1);
    int calls = 0;
    letters.refuses = [&](const store::NewLetter&) { return calls <= 2; };
    letters.fault = [&](int number, std::string_view) {
        calls = number;
        return number == 3 ? Fault::retryable : Fault::none;
    };
    ASSERT_TRUE(drained());
    EXPECT_TRUE(letters.stored().front().payload) << "what was wrong has ended with the outage";
    EXPECT_EQ(counts.reduced, 0);
}

TEST_F(IngestTest, AnOutageWhileLookingForTheRefusedOneLosesNothing) {
    fill(16);
    letters.refuses = [](const store::NewLetter& letter) { return letter.record.offset == 9 && !letter.truncated; };
    letters.fault = [](int number, std::string_view) { return number % 2 == 0 ? Fault::retryable : Fault::none; };
    ASSERT_TRUE(drained());
    all_stored_once();
    EXPECT_EQ(counts.reduced, 1);
}

TEST_F(IngestTest, ASourceThatCannotWorkEndsIt) {
    source.cannot_work = true;
    EXPECT_FALSE(ingest->step());
    ASSERT_TRUE(ingest->failure());
    EXPECT_EQ(ingest->failure()->code, "bad_setting");
    EXPECT_EQ(counts.failures, 1);
    EXPECT_EQ(log.count(LogLevel::error), 1);
}

TEST_F(IngestTest, ASourceThatCannotWorkEndsItWhileTheStoreIsAwayToo) {
    fill(5);
    letters.fault = [](int, std::string_view) { return Fault::retryable; };
    while (counts.failed < 5) ASSERT_TRUE(ingest->step());
    int polls = 0;
    source.on_poll = [&] { ++polls; };
    source.cannot_work = true;
    EXPECT_FALSE(ingest->step()) << "it would ask again and again until the store's next turn";
    EXPECT_EQ(polls, 1);
    ASSERT_TRUE(ingest->failure());
    EXPECT_EQ(ingest->failure()->code, "bad_setting");
    EXPECT_EQ(counts.failures, 1);
    EXPECT_EQ(source.committed(), 0U) << "what is not stored is read again by whoever comes next";
}

TEST_F(IngestTest, TellsTheLag) {
    fill(5);
    ingest->step();
    EXPECT_EQ(counts.lag, 5);
    ingest->step();
    EXPECT_EQ(source.committed(), 5U);
    EXPECT_EQ(counts.lag, 5) << "not asked for again so soon";
    clock.move(std::chrono::seconds(6));
    ASSERT_TRUE(drained());
    ingest->step();
    clock.move(std::chrono::seconds(6));
    ingest->step();
    EXPECT_EQ(counts.lag, 0);
}

TEST_F(IngestTest, TellsWhetherABrokerAnswers) {
    options.commit_every = std::chrono::hours(1);
    restarted();
    ingest->step();
    EXPECT_EQ(counts.reachable, true);
    fill(5);
    source.is_reachable = false;
    clock.move(std::chrono::seconds(6));
    ingest->step();
    EXPECT_EQ(counts.reachable, false);
    EXPECT_EQ(counts.lag, 0) << "what is not known is not told";
    source.is_reachable = true;
    source.knows_lag = false;
    clock.move(std::chrono::seconds(6));
    ingest->step();
    EXPECT_EQ(counts.reachable, true);
    EXPECT_EQ(counts.lag, 0);
}

TEST_F(IngestTest, TheThreadStopsWhileItWaitsForRecordsAndCommitsWhatIsStored) {
    fill(5);
    source.waits = true;
    options.commit_every = std::chrono::hours(1);
    restarted();
    ingest->start();
    ASSERT_TRUE(eventually([&] { return letters.stored().size() == 5; }));
    EXPECT_TRUE(ingest->stop(std::chrono::seconds(20)));
    EXPECT_TRUE(ingest->stop(std::chrono::seconds(20))) << "twice is once";
    EXPECT_EQ(source.committed(), 5U);
}

TEST_F(IngestTest, TheThreadStopsWhileTheStoreIsAwayAndCommitsNothing) {
    fill(5);
    letters.fault = [](int, std::string_view) { return Fault::retryable; };
    ingest->start();
    ASSERT_TRUE(eventually([&] { return letters.calls_of("store") > 2; }));
    EXPECT_TRUE(ingest->stop(std::chrono::seconds(20)));
    EXPECT_EQ(source.committed(), 0U);
    letters.fault = [](int, std::string_view) { return Fault::none; };
    restarted();
    ASSERT_TRUE(drained());
    all_stored_once();
}

TEST_F(IngestTest, TheThreadStopsWhileTheStoreIsAwayAndCommitsNothingThoughSomeIsStored) {
    fill(10);
    options.max_records = 5;
    options.commit_every = std::chrono::hours(1000);
    restarted();
    letters.fault = [](int number, std::string_view) { return number == 1 ? Fault::none : Fault::retryable; };
    ingest->start();
    ASSERT_TRUE(eventually([&] { return letters.calls_of("store") > 2; }));
    EXPECT_TRUE(ingest->stop(std::chrono::seconds(20)));
    EXPECT_EQ(letters.stored().size(), 5U);
    EXPECT_EQ(source.given(), 10U);
    EXPECT_EQ(source.committed(), 0U) << "a commit covers what was read, and five of it are not stored";
    letters.fault = [](int, std::string_view) { return Fault::none; };
    restarted();
    ASSERT_TRUE(drained());
    all_stored_once();
}

TEST_F(IngestTest, AStopThatDoesNotEndInTimeSaysSo) {
    fill(1);
    std::promise<void> storing;
    std::promise<void> goes_on;
    letters.fault = [&](int number, std::string_view) {
        if (number == 1) {
            storing.set_value();
            goes_on.get_future().wait();
        }
        return Fault::none;
    };
    ingest->start();
    storing.get_future().wait();
    EXPECT_FALSE(ingest->stop(std::chrono::milliseconds(1)));
    goes_on.set_value();
    EXPECT_TRUE(ingest->stop(std::chrono::seconds(20)));
    EXPECT_EQ(source.committed(), 1U);
}

TEST_F(IngestTest, ItsEndWaitsForTheThread) {
    fill(1);
    std::promise<void> storing;
    std::promise<void> goes_on;
    letters.fault = [&](int number, std::string_view) {
        if (number == 1) {
            storing.set_value();
            goes_on.get_future().wait();
        }
        return Fault::none;
    };
    ingest->start();
    storing.get_future().wait();
    auto end = std::async(std::launch::async, [&] { ingest.reset(); });
    EXPECT_EQ(end.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
    goes_on.set_value();
    end.get();
    EXPECT_EQ(source.committed(), 1U);
}

TEST_F(IngestTest, ItsEndStopsTheThread) {
    source.waits = true;
    ingest->start();
    ingest.reset();
    EXPECT_TRUE(source.woken());
}

TEST(NewLetterTest, JsonOfAnyKindIsAPayload) {
    Record record;
    for (const char* text : {"{}", "[1]", "\"text\"", "12", "null"}) {
        record.value = text;
        EXPECT_EQ(letter_of(record, 100).payload, text);
    }
    for (const std::string& text :
         {std::string(), std::string("{"), std::string("\"\\u0000\""), std::string("\"\xff\"")}) {
        record.value = text;
        EXPECT_EQ(letter_of(record, 100).payload, std::nullopt) << text;
        EXPECT_EQ(letter_of(record, 100).record.value, text);
    }
}

/// 9,000 numbers in 81 kB, which PostgreSQL would write as a gigabyte.
TEST(NewLetterTest, NumbersThatWouldSwellAreNoPayload) {
    std::string text = "[0";
    for (int i = 0; i < 9'000; ++i) text += ",1e131000";
    text += "]";
    Record record;
    record.value = text;
    const store::NewLetter letter = letter_of(record, 1'000'000);
    EXPECT_EQ(letter.payload, std::nullopt);
    EXPECT_EQ(letter.record.value, text);
    EXPECT_FALSE(letter.truncated);
}

}  // namespace
}  // namespace deliverd::deadletter
