// Letters of spools, retried one by one and all together. The files themselves are in spool/hand_over_test.cc; here
// spools that answer as told.
#include <gtest/gtest.h>

#include <algorithm>

#include "deadletter/manager.h"
#include "deadletter/testing/fake_letters.h"
#include "deadletter/testing/fakes.h"

namespace deliverd::deadletter {
namespace {

using Fault = FakeLetters::Fault;
using store::LetterStatus;

class FakeSpools final : public Spools {
public:
    std::string refusal(const store::Letter&) override { return refusal_; }
    std::vector<Outcome> put_back(std::span<const store::LetterDetail> letters) override {
        std::vector<Outcome> outcomes;
        for (const store::LetterDetail& letter : letters) {
            asked_.push_back(letter.record.key.value_or(""));
            outcomes.push_back(answer_);
        }
        return outcomes;
    }

    std::string refusal_;
    Outcome answer_{.kind = OutcomeKind::delivered, .receipt = "back in its spool hooks"};
    std::vector<std::string> asked_;
};

class SpoolsTest : public testing::Test {
protected:
    static ManagerOptions options() {
        ManagerOptions options;
        options.store_retry_wait = std::chrono::microseconds(1);
        return options;
    }
    std::string add() {
        const std::string id = letters.add("hooks");
        letters.change(id, [](FakeLetters::Row& row) {
            row.detail.letter.topic.reset();
            row.detail.letter.source = "spool:hooks";
        });
        return id;
    }
    LetterStatus status(const std::string& id) { return letters.at(id).detail.letter.status; }
    std::int32_t retries(const std::string& id) { return letters.at(id).detail.letter.retry_count; }

    FakeLetters letters;
    FakeReplayer replayer;
    FakeSpools spools;
    RecordingLog log;
    Manager manager{options(), letters, &replayer, log, uuid_source(), &spools};
};

TEST_F(SpoolsTest, ARetryPutsTheEntryBackAndPublishesNothing) {
    const std::string id = add();
    const RetryReport report = manager.retry(id, "ops");
    EXPECT_EQ(report.answer, RetryAnswer::resolved);
    EXPECT_EQ(report.message, "back in its spool hooks");
    EXPECT_EQ(status(id), LetterStatus::resolved);
    EXPECT_EQ(spools.asked_, std::vector<std::string>{"key-1"});
    EXPECT_TRUE(replayer.arrived().empty());
}

TEST_F(SpoolsTest, WithoutTheSpoolItIsAConflictAndNothingBegins) {
    const std::string id = add();
    spools.refusal_ = "no such spool here";
    const RetryReport report = manager.retry(id, "ops");
    EXPECT_EQ(report.answer, RetryAnswer::conflict);
    EXPECT_EQ(report.message, "message is not retryable: no such spool here");
    Manager without{options(), letters, &replayer, log};
    EXPECT_EQ(without.retry(id, "ops").answer, RetryAnswer::conflict);
    EXPECT_EQ(letters.calls_of("begin_retry"), 0);
    EXPECT_TRUE(spools.asked_.empty());
}

TEST_F(SpoolsTest, WhatTheEntryForbidsIsAConflictAndDoesNotCount) {
    const std::string id = add();
    spools.answer_ = {.kind = OutcomeKind::permanent, .detail = "its entry is resolved"};
    for (int n = 0; n < 5; ++n) {
        const RetryReport report = manager.retry(id, "ops");
        EXPECT_EQ(report.answer, RetryAnswer::conflict);
        EXPECT_EQ(report.message, "not put back into its spool: its entry is resolved");
    }
    EXPECT_EQ(status(id), LetterStatus::pending);
    EXPECT_EQ(retries(id), 0);
}

TEST_F(SpoolsTest, ABusyFileDoesNotCountAndAnUncertainOneIsInDoubt) {
    const std::string id = add();
    spools.answer_ = {.kind = OutcomeKind::retryable, .code = "spool_busy", .detail = "wait", .not_attempted = true};
    EXPECT_EQ(manager.retry(id, "ops").answer, RetryAnswer::not_published);
    EXPECT_EQ(retries(id), 0);
    spools.answer_ = {.kind = OutcomeKind::ambiguous, .code = "io_error", .detail = "fsync"};
    EXPECT_EQ(manager.retry(id, "ops").answer, RetryAnswer::in_doubt);
    EXPECT_EQ(status(id), LetterStatus::retrying);
}

TEST_F(SpoolsTest, RetryAllPutsEntriesBackAlsoWithoutKafka) {
    ManagerOptions alone = options();
    alone.dead_letter_pattern.clear();
    Manager stand_alone{alone, letters, nullptr, log, uuid_source(), &spools};
    std::vector<std::string> ids;
    for (int n = 0; n < 250; ++n) ids.push_back(add());
    const auto report = stand_alone.retry_all("hooks", "ops");
    ASSERT_TRUE(report);
    EXPECT_EQ(report->redrive.published, 250);
    EXPECT_EQ(report->problem, "");
    EXPECT_EQ(spools.asked_.size(), 250U);
    EXPECT_TRUE(std::ranges::all_of(ids, [&](const std::string& id) { return status(id) == LetterStatus::resolved; }));
}

TEST_F(SpoolsTest, RetryAllEndsAtAFileThatIsBusyAndCountsNothing) {
    ManagerOptions few = options();
    few.page = 10;
    few.pages_in_flight = 4;
    Manager busy{few, letters, &replayer, log, uuid_source(), &spools};
    std::vector<std::string> ids;
    for (int n = 0; n < 200; ++n) ids.push_back(add());
    spools.answer_ = {.kind = OutcomeKind::retryable, .code = "spool_busy", .detail = "wait", .not_attempted = true};
    const auto report = busy.retry_all("hooks", "ops");
    ASSERT_TRUE(report);
    EXPECT_NE(report->problem.find("spool_busy"), std::string::npos);
    // However slow the file's thread is: no page is begun beyond those in flight before the first of them has its end.
    EXPECT_LE(spools.asked_.size(), 40U);
    EXPECT_TRUE(std::ranges::all_of(ids, [&](const std::string& id) { return retries(id) == 0; }));
}

TEST_F(SpoolsTest, RetryAllLeavesOutWhatTheEntriesForbid) {
    const std::string id = add();
    spools.answer_ = {.kind = OutcomeKind::permanent, .detail = "its entry is resolved"};
    const auto report = manager.retry_all("hooks", "ops");
    ASSERT_TRUE(report);
    EXPECT_EQ(report->redrive.published, 0);
    EXPECT_EQ(report->problem, "");
    EXPECT_EQ(status(id), LetterStatus::pending);
    EXPECT_EQ(retries(id), 0);
}

}  // namespace
}  // namespace deliverd::deadletter
