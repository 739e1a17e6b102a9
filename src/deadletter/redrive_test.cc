// The steps of a redrive, one by one and without threads: what each does next, what ends it early, and what is said.
#include "deadletter/redrive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

#include "deadletter/testing/fake_source.h"
#include "deadletter/testing/redrive_fixture.h"

namespace deliverd::deadletter {
namespace {

using Fault = FakeLetters::Fault;
using Step = RedriveRun::Step;
using store::LetterStatus;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;
using testing::SizeIs;
using testing::StartsWith;

constexpr const char* kAll = "all.dlq.v1";

class RedriveStepsTest : public testing::Test {
protected:
    class OpenSpools final : public Spools {
    public:
        std::string refusal(const store::Letter& /*letter*/) override { return {}; }
        std::vector<Outcome> put_back(std::span<const store::LetterDetail> letters) override {
            if (before) before();
            return std::vector<Outcome>(letters.size(), answer);
        }
        std::function<void()> before;
        Outcome answer{.kind = OutcomeKind::delivered};
    };

    RedriveStepsTest() {
        options.page = 2;
        options.pages_at_once = 1;
        options.pages_in_flight = 3;
        options.store_retry_wait = std::chrono::microseconds(1);
        options.clock = clock;
    }
    std::string add(const std::string& topic = "orders") {
        const std::string id = letters.add(topic);
        letters.change(id, [](FakeLetters::Row& row) { row.detail.letter.topic = kAll; });
        return id;
    }
    std::string add_of_lane() { return letters.add_of_lane(kAll, "memory"); }
    std::string add_of_spool() {
        const std::string id = letters.add(kAll);
        letters.change(id, [](FakeLetters::Row& row) {
            row.detail.letter.topic.reset();
            row.detail.letter.source = "spool:" + std::string(kAll);
        });
        return id;
    }
    std::vector<std::string> add(int count) {
        std::vector<std::string> ids;
        for (int i = 0; i < count; ++i) ids.push_back(add());
        return ids;
    }
    Manager& manager() {
        if (!manager_) {
            manager_ = std::make_unique<Manager>(options, letters, &replayer, log, uuid_source(), &spools);
        }
        return *manager_;
    }
    /// As another process began it, if `resumed`.
    void begin(bool resumed = false, const SendRule& rule = {}) {
        run = manager().begin_redrive(kAll, "ops", rule, resumed).value();
        ASSERT_TRUE(run);
        ended = {};
    }
    Step read() { return note(0, run->read_step()); }
    Step publish() { return note(1, run->publish_step()); }
    Step record() { return note(2, run->record_step()); }
    /// Makes the steps that are left, and answers with the report.
    RedriveReport finish() {
        for (int turn = 0; turn < 1000 && !(ended[0] && ended[1] && ended[2]); ++turn) {
            if (!ended[0]) read();
            if (!ended[1]) publish();
            if (!ended[2]) record();
        }
        EXPECT_TRUE(ended[0] && ended[1] && ended[2]);
        return run->finish();
    }
    RedriveReport redrive(bool resumed = false) {
        begin(resumed);
        return finish();
    }
    LetterStatus status(const std::string& id) { return letters.at(id).detail.letter.status; }
    void answer_all(Outcome outcome) {
        replayer.answer = [outcome = std::move(outcome)](const Record&) { return outcome; };
    }
    void fail(const std::string& name, Fault fault) {
        letters.fault = [name, fault](int, std::string_view call) { return call == name ? fault : Fault::none; };
    }
    static Outcome away() { return {.kind = OutcomeKind::retryable, .code = "AWAY", .not_attempted = true}; }

    std::shared_ptr<HandClock> clock = std::make_shared<HandClock>();
    ManagerOptions options;
    FakeLetters letters;
    FakeReplayer replayer;
    OpenSpools spools;
    RecordingLog log;
    std::unique_ptr<Manager> manager_;
    std::unique_ptr<RedriveRun> run;
    std::array<bool, 3> ended{};

private:
    Step note(std::size_t which, Step step) {
        ended.at(which) = step == Step::ended;
        return step;
    }
};

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
    for (const bool resumed : {false, true}) {
        const RedriveReport ended_early = redrive(resumed);
        EXPECT_THAT(ended_early.problem, StartsWith("more than 100 topics take nothing; messages for topic gone-0"));
        EXPECT_TRUE(ended_early.redrive.finished) << "whoever resumed it could do no more";
    }
}

// --- recording -----------------------------------------------------------------------------------------------------

TEST_F(RedriveStepsTest, WhatCannotBeRecordedEndsItAndNothingMoreIsPublished) {
    const auto ids = add(6);
    replayer.answer = [](const Record& record) {
        if (record.key == "key-2") return Outcome{.kind = OutcomeKind::ambiguous};
        return Outcome{.kind = record.key == "key-1" ? OutcomeKind::delivered : OutcomeKind::permanent};
    };
    options.page = 3;
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
    EXPECT_THAT(report.problem, StartsWith("2 messages were published, but that could not be recorded: switched off"));
    EXPECT_THAT(replayer.batches(), SizeIs(1));
    EXPECT_EQ(report.not_tried, 3);
    EXPECT_EQ(report.not_tried_reason, "the redrive ended before it");
    EXPECT_EQ(status(ids[4]), LetterStatus::pending);
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
    options.page = 2;
    replayer.answer = [](const Record& record) {
        return Outcome{.kind = record.key == "key-1" ? OutcomeKind::permanent : OutcomeKind::delivered};
    };
    begin();
    EXPECT_EQ(read(), Step::done);
    EXPECT_EQ(publish(), Step::done);
    EXPECT_EQ(read(), Step::done);
    for (const std::size_t i : {0U, 1U}) letters.change(ids[i], [](auto& row) { row.owner = "another"; });
    EXPECT_EQ(record(), Step::done);
    EXPECT_EQ(read(), Step::ended);
    fail("close_redrive", Fault::permanent);  // then the report has this run's own counts
    const RedriveReport report = finish();
    EXPECT_THAT(report.problem, StartsWith("its lease had ended, and another process may retry the same messages"));
    EXPECT_EQ(report.redrive.published, 0);
    EXPECT_EQ(report.redrive.in_doubt, 1) << "the one that may be out twice";
    EXPECT_EQ(report.redrive.failed, 1);
    EXPECT_EQ(report.not_tried, 2) << "what was begun is not published any more";
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
    add(2);
    replayer.answer = [](const Record& record) {
        return record.key == "key-1" ? Outcome{.kind = OutcomeKind::delivered} : away();
    };
    const RedriveReport report = redrive(true);
    EXPECT_EQ(report.problem, "the broker got only a part: AWAY; it resumes by itself");
    EXPECT_FALSE(report.redrive.finished);
    EXPECT_EQ(report.redrive.published, 1);
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
