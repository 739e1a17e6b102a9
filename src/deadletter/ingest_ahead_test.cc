// The ingest reads a batch while it stores the one before.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <vector>

#include "deadletter/testing/ingest_fixture.h"

namespace deliverd::deadletter {
namespace {

using Fault = FakeLetters::Fault;

TEST_F(IngestTest, TheNextBatchIsReadWhileOneIsStored) {
    options.max_records = 10;
    restarted();
    fill(30);
    std::vector<std::size_t> given;
    letters.fault = [&](int number, std::string_view) {
        const auto ahead = std::min<std::size_t>(10 * static_cast<std::size_t>(number + 1), 30);
        EXPECT_TRUE(eventually([&] { return source.given() == ahead; })) << number;
        given.push_back(source.given());
        return Fault::none;
    };
    ASSERT_TRUE(drained());
    EXPECT_EQ(given, (std::vector<std::size_t>{20, 30, 30})) << "one batch ahead, and no more";
    all_stored_once();
    EXPECT_EQ(counts.repeated, 0U);
}

TEST_F(IngestTest, WhatIsReadAheadIsNotCommittedBeforeItIsStored) {
    options.max_records = 10;
    options.commit_every = std::chrono::seconds(1);
    restarted();
    fill(40);
    bool dies = false;
    letters.fault = [&](int, std::string_view) {
        clock.move(std::chrono::seconds(2));  // a commit is due after each
        return dies ? Fault::retryable : Fault::none;
    };
    for (const std::size_t stored : {10U, 20U, 30U}) {
        ASSERT_TRUE(ingest->step());
        EXPECT_EQ(letters.stored().size(), stored);
        EXPECT_LE(source.committed(), stored);
    }
    EXPECT_GE(source.committed(), 20U) << "a step that is due to commit does not read on";
    dies = true;
    ASSERT_TRUE(ingest->step());
    dies = false;
    restarted();
    ASSERT_TRUE(drained());
    all_stored_once();
}

TEST_F(IngestTest, AnOutageKeepsWhatWasReadAhead) {
    options.max_records = 10;
    restarted();
    fill(25);
    letters.fault = [&](int number, std::string_view) { return number < 4 ? Fault::retryable : Fault::none; };
    ASSERT_TRUE(ingest->step());
    EXPECT_EQ(source.given(), 20U);
    EXPECT_TRUE(source.paused());
    while (source.paused()) ASSERT_TRUE(ingest->step());
    EXPECT_EQ(source.committed(), 20U);
    EXPECT_EQ(letters.stored().size(), 20U) << "the commit that ended the pause covered it";
    ASSERT_TRUE(drained());
    all_stored_once();
    EXPECT_EQ(counts.repeated, 0U) << "nothing was read again";
}

TEST_F(IngestTest, WhatComesInTheMomentOfPausingIsStoredBeforeItIsCommitted) {
    options.max_records = 10;
    restarted();
    fill(25);
    source.late = 5;
    letters.fault = [&](int number, std::string_view) { return number < 4 ? Fault::retryable : Fault::none; };
    ASSERT_TRUE(ingest->step());
    EXPECT_TRUE(source.paused());
    while (source.paused()) ASSERT_TRUE(ingest->step());
    EXPECT_EQ(source.committed(), 25U);
    all_stored_once();
}

TEST_F(IngestTest, ARefusedRecordIsFoundWithABatchReadAhead) {
    options.max_records = 10;
    restarted();
    fill(25);
    letters.refuses = [](const store::NewLetter& letter) { return letter.record.offset % 10 == 4 && letter.payload; };
    letters.fault = [](int number, std::string_view) { return number % 5 == 0 ? Fault::retryable : Fault::none; };
    ASSERT_TRUE(drained());
    all_stored_once();
    EXPECT_EQ(counts.reduced, 3);
}

TEST_F(IngestTest, AStopStoresWhatWasReadAhead) {
    options.max_records = 10;
    options.commit_every = std::chrono::hours(1);
    source.waits = true;
    restarted();
    fill(20);
    std::future<bool> stopped;
    std::promise<void> started;  // nobody may stop it before start() has returned
    letters.fault = [&](int number, std::string_view) {
        if (number != 1) return Fault::none;
        started.get_future().wait();
        EXPECT_TRUE(eventually([&] { return source.given() == 20; }));
        stopped = std::async(std::launch::async, [&] { return ingest->stop(std::chrono::seconds(20)); });
        EXPECT_TRUE(eventually([&] { return source.woken(); }));
        return Fault::none;
    };
    ingest->start();
    started.set_value();
    ASSERT_TRUE(eventually([&] { return letters.stored().size() == 20; }));
    EXPECT_TRUE(stopped.get());
    EXPECT_EQ(source.committed(), 20U);
    EXPECT_EQ(letters.calls_of("store"), 2);
}

}  // namespace
}  // namespace deliverd::deadletter
