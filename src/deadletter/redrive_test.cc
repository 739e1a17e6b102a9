// The steps of a redrive, one by one and without threads: what is read and published next, and what ends it early.
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
using testing::ElementsAre;
using testing::EndsWith;
using testing::Pair;
using testing::SizeIs;
using testing::StartsWith;

// --- reading -------------------------------------------------------------------------------------------------------

TEST_F(RedriveStepsTest, EachStepWaitsForWhatItNeeds) {
    add(8);
    begin();
    EXPECT_EQ(publish(), Step::waiting);
    EXPECT_EQ(record(), Step::waiting);
    for (int page = 0; page < 3; ++page) EXPECT_EQ(read(), Step::done);
    EXPECT_EQ(read(), Step::waiting) << "as many pages as may be in flight";
    EXPECT_EQ(publish(), Step::done);
    EXPECT_EQ(publish(), Step::waiting) << "all that were read went out at once";
    EXPECT_THAT(replayer.batches(), ElementsAre(6));
    EXPECT_EQ(read(), Step::waiting) << "they are not recorded yet";
    EXPECT_EQ(record(), Step::done);
    EXPECT_EQ(record(), Step::waiting);
    EXPECT_EQ(read(), Step::done);
    EXPECT_EQ(read(), Step::ended);
    EXPECT_EQ(record(), Step::waiting) << "a page is still to be published";
    EXPECT_EQ(publish(), Step::done);
    EXPECT_EQ(publish(), Step::ended);
    EXPECT_EQ(record(), Step::done);
    EXPECT_EQ(record(), Step::ended);
    const RedriveReport report = finish();
    EXPECT_EQ(report.redrive.published, 8);
    EXPECT_EQ(report.problem, "");
    EXPECT_TRUE(report.redrive.finished);
}

TEST_F(RedriveStepsTest, APageHasWhatThereIsRoomFor) {
    options.pages_at_once = 4;
    options.pages_in_flight = 6;
    for (const std::string& id : add(20)) {
        letters.change(id, [](FakeLetters::Row& row) { row.detail.record.value = std::string(1000, 'v'); });
    }
    begin();
    EXPECT_EQ(read(), Step::done);
    EXPECT_EQ(read(), Step::done);
    EXPECT_EQ(read(), Step::waiting);
    const auto asked = letters.asked();
    ASSERT_THAT(asked, SizeIs(2));
    EXPECT_THAT(asked[0], Pair(8, static_cast<std::int64_t>(kMaxRedriveBytes)));
    EXPECT_EQ(asked[1].first, 4) << "two of six pages are left";
    const auto each = static_cast<std::int64_t>(content_bytes(letters.at(letters.ids().front()).detail.record));
    EXPECT_EQ(asked[0].second - asked[1].second, 8 * each);
    EXPECT_EQ(publish(), Step::done);
    EXPECT_EQ(record(), Step::done);
    EXPECT_EQ(read(), Step::done);
    EXPECT_THAT(letters.asked().back(), Pair(8, static_cast<std::int64_t>(kMaxRedriveBytes)));
    EXPECT_EQ(finish().redrive.published, 20);
}

/// A page that is not full takes the room of one.
TEST_F(RedriveStepsTest, OneLetterIsAPage) {
    options.page = 3;
    add(4);
    begin();
    EXPECT_EQ(read(), Step::done);
    EXPECT_EQ(read(), Step::done);
    EXPECT_EQ(read(), Step::ended);
    EXPECT_THAT(letters.asked(), SizeIs(3)) << "three pages are allowed: the last one finds that there is no more";
    EXPECT_EQ(finish().redrive.published, 4);
}

TEST_F(RedriveStepsTest, PayloadsTakeRoomToo) {
    const std::string payload = "\"" + std::string(5000, 'p') + "\"";
    const std::string id = add();
    letters.change(id, [&](FakeLetters::Row& row) {
        row.detail.letter.payload = payload;
        row.detail.record.value.reset();
    });
    begin();
    EXPECT_EQ(read(), Step::done);
    EXPECT_EQ(read(), Step::ended);
    const auto asked = letters.asked();
    ASSERT_THAT(asked, SizeIs(2));
    EXPECT_EQ(asked[0].second - asked[1].second,
              static_cast<std::int64_t>(content_bytes(letters.at(id).detail.record) + payload.size()));
    EXPECT_EQ(finish().redrive.published, 1);
}

TEST_F(RedriveStepsTest, APageIsAskedForAgainOnlyAfterACertainFailure) {
    for (const auto& [fault, calls] :
         {std::pair(Fault::retryable, std::int64_t{kStoreAttempts}), std::pair(Fault::permanent, std::int64_t{1}),
          std::pair(Fault::ambiguous_not_done, std::int64_t{1})}) {
        add(2);
        begin();
        fail("next_of_redrive", fault);
        const auto before = letters.calls_of("next_of_redrive");
        EXPECT_EQ(read(), Step::ended);
        EXPECT_EQ(letters.calls_of("next_of_redrive") - before, calls);
        letters.fault = [](int, std::string_view) { return Fault::none; };
        const RedriveReport report = finish();
        EXPECT_THAT(report.problem, StartsWith("the next messages could not be read: "));
        EXPECT_EQ(report.problem.ends_with(" (some may stay RETRYING until their lease ends)"),
                  fault == Fault::ambiguous_not_done)
            << report.problem;
        EXPECT_EQ(report.redrive.published, 0);
    }
}

TEST_F(RedriveStepsTest, AFailedReadDoesNotReplaceAnEarlierProblem) {
    add(4);
    begin();
    EXPECT_EQ(read(), Step::done);
    answer_all(away());
    letters.fault = [this](int, std::string_view call) {
        if (call != "next_of_redrive") return Fault::none;
        EXPECT_EQ(publish(), Step::done);
        return Fault::permanent;
    };
    EXPECT_EQ(read(), Step::ended);
    EXPECT_EQ(finish().problem, "the broker got none of 2 messages: AWAY");
}

TEST_F(RedriveStepsTest, AStopEndsTheAttempts) {
    add(2);
    begin();
    letters.fault = [this](int, std::string_view call) {
        if (call != "next_of_redrive") return Fault::none;
        manager().close();
        return Fault::retryable;
    };
    EXPECT_EQ(read(), Step::ended);
    EXPECT_EQ(letters.calls_of("next_of_redrive"), 1);
    finish();
}

TEST_F(RedriveStepsTest, AStoreThatComesBackInTimeIsNoProblem) {
    add(2);
    begin();
    letters.fault = [this](int, std::string_view call) {
        return call == "next_of_redrive" && letters.calls_of(call) < kStoreAttempts ? Fault::retryable : Fault::none;
    };
    const RedriveReport report = finish();
    EXPECT_EQ(report.problem, "");
    EXPECT_EQ(report.redrive.published, 2);
}

TEST_F(RedriveStepsTest, TheFirstProblemIsTheOneThatIsSaid) {
    add(4);
    begin();
    EXPECT_EQ(read(), Step::done);
    answer_all(away());
    replayer.before = [this] {
        fail("next_of_redrive", Fault::permanent);
        EXPECT_EQ(read(), Step::ended);
    };
    const RedriveReport report = finish();
    EXPECT_THAT(report.problem, StartsWith("the next messages could not be read"));
}

// --- publishing ----------------------------------------------------------------------------------------------------

TEST_F(RedriveStepsTest, WithoutABrokerWhatWasBegunMeanwhileIsNotPublished) {
    const auto ids = add(6);
    begin();
    EXPECT_EQ(read(), Step::done);
    answer_all(away());
    replayer.before = [this] { EXPECT_EQ(read(), Step::done); };
    EXPECT_EQ(publish(), Step::done);
    EXPECT_EQ(read(), Step::ended) << "it ends early";
    EXPECT_EQ(publish(), Step::done);
    EXPECT_THAT(replayer.batches(), ElementsAre(2));
    const RedriveReport report = finish();
    EXPECT_EQ(report.problem, "the broker got none of 2 messages: AWAY");
    EXPECT_EQ(report.not_tried, 4);
    EXPECT_EQ(report.not_tried_reason, "AWAY");
    for (const std::string& id : ids) EXPECT_EQ(status(id), LetterStatus::pending);
}

TEST_F(RedriveStepsTest, OneThatMayHaveArrivedMakesTheBrokerOneThatDidNotConfirm) {
    const auto ids = add(2);
    replayer.answer = [](const Record& record) {
        return record.key == "key-2" ? Outcome{.kind = OutcomeKind::ambiguous, .code = "LOST"} : away();
    };
    const RedriveReport report = redrive();
    EXPECT_EQ(report.problem, "the broker confirmed none of 2 messages: AWAY");
    EXPECT_EQ(report.redrive.in_doubt, 1);
    EXPECT_EQ(report.not_tried, 1);
}

/// What is not too late is sent, also in pages that were begun meanwhile.
TEST_F(RedriveStepsTest, PublishingThatIsTooLateEndsTheReadingOnly) {
    const auto ids = add(8);
    begin();
    EXPECT_EQ(read(), Step::done);
    clock->move(options.retry_lease - options.publish_at_most);
    EXPECT_EQ(read(), Step::done);
    replayer.before = [this] {
        if (replayer.batches().empty()) {
            EXPECT_EQ(read(), Step::done);
        }
    };
    EXPECT_EQ(publish(), Step::done);
    EXPECT_EQ(read(), Step::ended);
    const RedriveReport report = finish();
    EXPECT_THAT(report.problem, StartsWith("publishing was too slow"));
    EXPECT_EQ(report.redrive.published, 4);
    EXPECT_EQ(report.not_tried, 2);
    EXPECT_EQ(status(ids[0]), LetterStatus::pending);
    EXPECT_EQ(status(ids[5]), LetterStatus::resolved);
    EXPECT_EQ(letters.at(ids[7]).detail.letter.retry_count, 0) << "not begun";
}

TEST_F(RedriveStepsTest, ALaneThatTakesNothingEndsTheReadingOnly) {
    add_of_lane();
    add_of_lane();
    const auto ids = add(4);
    begin();
    EXPECT_EQ(read(), Step::done);
    bool again = true;
    letters.fault = [&](int, std::string_view call) {
        if (call != "return_to_lane") return Fault::none;
        if (std::exchange(again, false)) {
            EXPECT_EQ(read(), Step::done);
        }
        return Fault::permanent;
    };
    EXPECT_EQ(publish(), Step::done);
    EXPECT_EQ(read(), Step::ended);
    const RedriveReport report = finish();
    EXPECT_EQ(report.problem, "messages could not be put back into their lane: switched off for good");
    EXPECT_EQ(report.redrive.published, 2) << "what was begun goes to Kafka";
    EXPECT_EQ(report.not_tried, 2);
    EXPECT_EQ(status(ids[3]), LetterStatus::pending);
}

TEST_F(RedriveStepsTest, ASpoolThatTakesNothingEndsTheReadingOnly) {
    add_of_spool();
    add_of_spool();
    add(4);
    begin();
    EXPECT_EQ(read(), Step::done);
    spools.answer = {.kind = OutcomeKind::retryable, .code = "spool_busy", .not_attempted = true};
    spools.before = [this] { EXPECT_EQ(read(), Step::done); };
    EXPECT_EQ(publish(), Step::done);
    EXPECT_EQ(read(), Step::ended);
    const RedriveReport report = finish();
    EXPECT_EQ(report.problem, "entries could not be put back into their spool: spool_busy");
    EXPECT_EQ(report.redrive.published, 2);
    EXPECT_EQ(report.not_tried, 2);
}

TEST_F(RedriveStepsTest, LettersOfLanesAreCountedOnce) {
    const std::string gone = add_of_lane();
    letters.change(gone, [](FakeLetters::Row& row) { row.lane_row_gone = true; });
    add_of_lane();
    add();
    const RedriveReport report = redrive();
    EXPECT_EQ(report.redrive.published, 2);
    EXPECT_EQ(report.redrive.failed, 1);
    EXPECT_EQ(report.problem, "");
}

TEST_F(RedriveStepsTest, ATopicIsSkippedWhenAllItsRecordsAreTurnedAway) {
    for (const char* topic : {"gone", "orders", "gone", "shut", "orders", "gone", "shut"}) add(topic);
    options.page = 4;
    replayer.answer = [](const Record& record) {
        if (record.topic == "gone") {
            return Outcome{.kind = OutcomeKind::retryable, .code = "UNKNOWN_TOPIC", .detail = "no such topic"};
        }
        if (record.topic == "shut") return Outcome{.kind = OutcomeKind::retryable, .code = "NOT_AUTHORIZED"};
        return Outcome{.kind = OutcomeKind::delivered};
    };
    const RedriveReport report = redrive();
    EXPECT_EQ(report.problem,
              "messages for topic gone were skipped: UNKNOWN_TOPIC: no such topic (and other topics: 1)");
    EXPECT_EQ(report.redrive.published, 2);
    EXPECT_EQ(report.redrive.failed, 0);
    EXPECT_EQ(report.not_tried, 3) << "the second page has none of theirs";
    EXPECT_TRUE(report.redrive.finished);
}

TEST_F(RedriveStepsTest, ATopicToWhichNothingWasSentIsSkippedToo) {
    for (const char* topic : {"gone", "orders", "orders", "gone"}) add(topic);
    options.page = 3;
    replayer.answer = [](const Record& record) {
        return record.topic == "gone" ? away() : Outcome{.kind = OutcomeKind::delivered};
    };
    const RedriveReport report = redrive();
    EXPECT_EQ(report.problem, "messages for topic gone were skipped: AWAY");
    EXPECT_EQ(report.not_tried, 1);
}

TEST_F(RedriveStepsTest, ARecordThatIsRefusedForGoodIsNotItsTopics) {
    add(2);
    answer_all({.kind = OutcomeKind::permanent, .code = "UNKNOWN_TOPIC"});
    const RedriveReport report = redrive();
    EXPECT_EQ(report.problem, "");
    EXPECT_EQ(report.redrive.failed, 2);
}

TEST_F(RedriveStepsTest, ATopicThatTookOneRecordIsNotSkipped) {
    add(4);
    replayer.answer = [](const Record& record) {
        if (record.key == "key-1") return Outcome{.kind = OutcomeKind::delivered};
        return Outcome{.kind = OutcomeKind::retryable, .code = "NOT_AUTHORIZED"};
    };
    options.page = 4;
    const RedriveReport report = redrive();
    EXPECT_EQ(report.problem, "");
    EXPECT_EQ(report.redrive.failed, 3);
}

TEST_F(RedriveStepsTest, AsManyTopicsAsAllowedAreSkippedAndOneMoreEndsIt) {
    options.page = 1000;
    answer_all({.kind = OutcomeKind::retryable, .code = "UNKNOWN_TOPIC"});
    for (std::size_t topic = 0; topic < kMaxSkippedTopics; ++topic) add("gone-" + std::to_string(topic));
    const RedriveReport report = redrive();
    EXPECT_THAT(report.problem, StartsWith("messages for topic gone-0 were skipped"));
    EXPECT_THAT(report.problem, EndsWith("(and other topics: 99)"));
    add("gone-more");
    options.page = static_cast<std::int32_t>(kMaxSkippedTopics) + 1;
    reset();
    add("more");
    for (const bool resumed : {false, true}) {
        const RedriveReport ended_early = redrive(resumed);
        EXPECT_THAT(ended_early.problem,
                    StartsWith("more than 100 topics accepted no message; messages for topic gone-0"));
        EXPECT_EQ(ended_early.not_tried, options.page) << "no other page is begun";
        EXPECT_TRUE(ended_early.redrive.finished) << "whoever resumed it could do no more";
    }
}

// The slowest one last.
TEST_F(RedriveStepsTest, APageThatTakesAllRoomIsWaitedFor) {
    const auto ids = add(4);
    letters.change(ids[0], [](FakeLetters::Row& row) { row.detail.record.value = std::string(kMaxRedriveBytes, 'v'); });
    begin();
    EXPECT_EQ(read(), Step::done);
    EXPECT_EQ(read(), Step::waiting);
    EXPECT_EQ(publish(), Step::done);
    EXPECT_EQ(record(), Step::done);
    EXPECT_EQ(read(), Step::done);
    EXPECT_EQ(finish().redrive.published, 4);
}

}  // namespace
}  // namespace deliverd::deadletter
