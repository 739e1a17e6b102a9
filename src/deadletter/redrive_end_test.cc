// The steps of a redrive, one by one and without threads: what is recorded, and how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "deadletter/testing/redrive_steps_fixture.h"

namespace deliverd::deadletter {
namespace {

using Fault = FakeLetters::Fault;
using Step = RedriveRun::Step;
using store::LetterStatus;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

// --- recording -----------------------------------------------------------------------------------------------------

TEST_F(RedriveStepsTest, WhatCannotBeRecordedEndsItAndNothingMoreIsPublished) {
    const auto ids = add(12);
    replayer.answer = [](const Record& record) {
        if (record.key == "key-2") return Outcome{.kind = OutcomeKind::ambiguous};
        const bool sent = record.key == "key-1" || record.key == "key-3";
        return Outcome{.kind = sent ? OutcomeKind::delivered : OutcomeKind::permanent};
    };
    options.page = 6;
    begin();
    EXPECT_EQ(read(), Step::done);
    EXPECT_EQ(publish(), Step::done);
    EXPECT_EQ(read(), Step::done);
    fail("end_of_redrive_page", Fault::permanent);
    EXPECT_EQ(record(), Step::done);
    letters.fault = [](int, std::string_view) { return Fault::none; };
    EXPECT_EQ(read(), Step::ended);
    EXPECT_EQ(log.count(LogLevel::error), 1);
    const RedriveReport report = finish();
    EXPECT_THAT(report.problem, StartsWith("3 messages were published, but that could not be recorded: switched off"));
    EXPECT_THAT(replayer.batches(), SizeIs(1));
    EXPECT_EQ(report.not_tried, 6);
    EXPECT_EQ(report.not_tried_reason, "the redrive ended before it");
    EXPECT_EQ(status(ids[7]), LetterStatus::pending);
}

TEST_F(RedriveStepsTest, WhatSomebodyElseHasByNowIsInDoubt) {
    const auto ids = add(8);
    options.page = 4;
    replayer.answer = [](const Record& record) {
        return Outcome{.kind = record.key == "key-1" ? OutcomeKind::permanent : OutcomeKind::delivered};
    };
    begin();
    EXPECT_EQ(read(), Step::done);
    EXPECT_EQ(publish(), Step::done);
    letters.change(ids[3], [](FakeLetters::Row& row) { row.owner = "another"; });
    EXPECT_EQ(record(), Step::done);
    EXPECT_EQ(log.count(LogLevel::error), 1);
    EXPECT_EQ(read(), Step::done) << "the others are still its own";
    fail("close_redrive", Fault::permanent);  // then the report has this run's own counts
    const RedriveReport report = finish();
    EXPECT_THAT(report.problem, StartsWith("all was tried, but that could not be recorded"));
    EXPECT_EQ(report.redrive.published, 6);
    EXPECT_EQ(report.redrive.in_doubt, 1);
    EXPECT_EQ(report.redrive.failed, 1);
}

TEST_F(RedriveStepsTest, WhereAllWasTakenOverItEnds) {
    const auto ids = add(8);
    options.page = 3;
    replayer.answer = [](const Record& record) {
        return Outcome{.kind = record.key == "key-1" ? OutcomeKind::permanent : OutcomeKind::delivered};
    };
    begin();
    EXPECT_EQ(read(), Step::done);
    EXPECT_EQ(publish(), Step::done);
    EXPECT_EQ(read(), Step::done);
    for (const std::size_t i : {0U, 1U, 2U}) letters.change(ids[i], [](auto& row) { row.owner = "another"; });
    EXPECT_EQ(record(), Step::done);
    EXPECT_EQ(read(), Step::ended);
    fail("close_redrive", Fault::permanent);  // then the report has this run's own counts
    const RedriveReport report = finish();
    EXPECT_THAT(report.problem, StartsWith("its lease had ended, and another process may retry the same messages"));
    EXPECT_EQ(report.redrive.published, 0);
    EXPECT_EQ(report.redrive.in_doubt, 2) << "those that may be out twice";
    EXPECT_EQ(report.redrive.failed, 1);
    EXPECT_EQ(report.not_tried, 3) << "what was begun is not published any more";
}

// --- the end -------------------------------------------------------------------------------------------------------

TEST_F(RedriveStepsTest, TheReportAddsToWhatWasDoneBefore) {
    options.page = 3;
    add(6);
    begin();
    replayer.answer = [](const Record& record) {
        if (record.key == "key-1" || record.key == "key-4") return Outcome{.kind = OutcomeKind::permanent};
        if (record.key == "key-2" || record.key == "key-5") return Outcome{.kind = OutcomeKind::ambiguous};
        return Outcome{.kind = OutcomeKind::delivered};
    };
    EXPECT_EQ(read(), Step::done);
    EXPECT_EQ(publish(), Step::done);
    EXPECT_EQ(record(), Step::done);
    letters.advance(options.retry_lease + std::chrono::seconds(1));  // the process dies here
    begin(true);
    EXPECT_EQ(run->opened().published, 1);
    fail("close_redrive", Fault::permanent);
    const RedriveReport report = finish();
    EXPECT_EQ(report.redrive.published, 2);
    EXPECT_EQ(report.redrive.failed, 2);
    EXPECT_EQ(report.redrive.in_doubt, 2);
    EXPECT_EQ(report.problem,
              "all was tried, but that could not be recorded: switched off for good; it was not closed, and resumes by "
              "itself where `serve` runs");
    EXPECT_FALSE(report.redrive.finished);
}

TEST_F(RedriveStepsTest, AStoppedOneIsReleasedForTheNextProcess) {
    add(8);
    begin();
    EXPECT_EQ(read(), Step::done);
    manager().close();
    EXPECT_EQ(read(), Step::ended);
    const RedriveReport report = finish();
    EXPECT_EQ(report.problem, "the program is stopping; the rest follows when it runs again");
    EXPECT_EQ(report.redrive.published, 2) << "what was begun is brought to its end";
    EXPECT_FALSE(report.redrive.finished);
    EXPECT_EQ(letters.calls_of("release_redrive"), 1);
    EXPECT_EQ(letters.calls_of("close_redrive"), 0);
    EXPECT_EQ(log.count(LogLevel::warn), 0);
    EXPECT_EQ(log.count(LogLevel::info), 1);
}

TEST_F(RedriveStepsTest, AResumedOneThatIsStoppedSaysOnlyThat) {
    add(8);
    begin(true);
    EXPECT_EQ(read(), Step::done);
    manager().close();
    EXPECT_EQ(finish().problem, "the program is stopping; the rest follows when it runs again");
    EXPECT_EQ(log.count(LogLevel::warn), 0);
}

TEST_F(RedriveStepsTest, WithARuleItEndsLikeAnyOther) {
    add(2);
    begin(false, [](const store::Letter&) { return std::string(); });
    EXPECT_EQ(finish().problem, "");
}

TEST_F(RedriveStepsTest, AStopAfterTheLastPageChangesNothing) {
    add(2);
    begin();
    EXPECT_EQ(read(), Step::done);
    EXPECT_EQ(read(), Step::ended);
    manager().close();
    const RedriveReport report = finish();
    EXPECT_EQ(report.problem, "");
    EXPECT_TRUE(report.redrive.finished);
}

/// Stopped, though it would have ended anyway.
TEST_F(RedriveStepsTest, AStopWithAProblemIsAStop) {
    for (const bool for_good : {false, true}) {
        add(4);
        letters.fault = [](int, std::string_view) { return Fault::none; };
        const SendRule rule = [](const store::Letter&) { return std::string(); };
        begin(false, for_good ? rule : SendRule());
        EXPECT_EQ(read(), Step::done);
        fail("next_of_redrive", Fault::permanent);
        EXPECT_EQ(read(), Step::ended);
        manager().close();
        const RedriveReport report = finish();
        EXPECT_THAT(report.problem, StartsWith(for_good ? "it was stopped" : "the program is stopping"));
        EXPECT_EQ(report.redrive.finished, for_good);
        run.reset();
        manager_.reset();
        if (!for_good) {
            letters.fault = [](int, std::string_view) { return Fault::none; };
            EXPECT_TRUE(redrive(true).redrive.finished);
        }
    }
}

TEST_F(RedriveStepsTest, AResumedOneThatCannotContinueIsLeftForLater) {
    add(4);
    for (const bool resumed : {true, false}) {
        const auto released = letters.calls_of("release_redrive");
        answer_all(away());
        const RedriveReport report = redrive(resumed);
        EXPECT_EQ(report.problem.ends_with("; it resumes by itself"), resumed) << report.problem;
        EXPECT_EQ(report.redrive.finished, !resumed);
        EXPECT_EQ(letters.calls_of("release_redrive") - released, resumed ? 1 : 0);
        EXPECT_EQ(log.count(LogLevel::warn), 1);
    }
}

TEST_F(RedriveStepsTest, APartThatTheBrokerDidNotGetIsLeftForLater) {
    add(3);
    options.page = 3;
    replayer.answer = [](const Record& record) {
        return record.key == "key-2" ? away() : Outcome{.kind = OutcomeKind::delivered};
    };
    const RedriveReport report = redrive(true);
    EXPECT_EQ(report.problem, "the broker got only a part: AWAY; it resumes by itself");
    EXPECT_FALSE(report.redrive.finished);
    EXPECT_EQ(report.redrive.published, 2);
}

TEST_F(RedriveStepsTest, ForAPersonAPartIsTheEnd) {
    add(2);
    replayer.answer = [](const Record& record) {
        return record.key == "key-1" ? Outcome{.kind = OutcomeKind::delivered} : away();
    };
    const RedriveReport report = redrive();
    EXPECT_EQ(report.problem, "");
    EXPECT_TRUE(report.redrive.finished);
    EXPECT_EQ(report.not_tried, 1);
}

TEST_F(RedriveStepsTest, OneThatSomebodyElseHasByNowIsNeitherClosedNorReleased) {
    for (const bool resumed : {false, true}) {
        add(4);
        begin(resumed);
        EXPECT_EQ(read(), Step::done);
        letters.advance(options.retry_lease + std::chrono::seconds(1));
        ASSERT_TRUE(letters.open_redrive(kAll, "another", "ops", std::chrono::seconds(1)).value());
        const RedriveReport report = finish();
        EXPECT_THAT(report.problem, HasSubstr("could not be read: somebody else has it"));
        EXPECT_THAT(report.problem, Not(EndsWith("resumes by itself")));
        EXPECT_EQ(letters.calls_of("close_redrive") + letters.calls_of("release_redrive"), 0);
        letters.advance(std::chrono::seconds(2));
    }
}

}  // namespace
}  // namespace deliverd::deadletter
