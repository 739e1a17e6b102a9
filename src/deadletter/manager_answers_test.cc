// What a retry answers: to whom, and with which reason.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "deadletter/testing/manager_fixture.h"

namespace deliverd::deadletter {
namespace {

using Fault = FakeLetters::Fault;
using store::LetterStatus;

TEST_F(ManagerTest, EachRetryIsToldWithItsAnswer) {
    class Told final : public RetryObserver {
    public:
        void on_retry(RetryAnswer answer) override { answers.push_back(answer); }
        std::vector<RetryAnswer> answers;
    } told;
    manager.observe(told);
    retry(letters.add("orders"));
    retry("nonsense");
    EXPECT_EQ(told.answers, (std::vector<RetryAnswer>{RetryAnswer::resolved, RetryAnswer::not_found}));
}

TEST_F(ManagerTest, ACallersRuleRefusesWhatItDoesNotAllow) {
    const RetryReport report =
        manager.retry(letters.add("orders"), "ops", [](const store::Letter&) { return "not for this caller"; });
    EXPECT_EQ(report.answer, RetryAnswer::conflict);
    EXPECT_EQ(report.message, "message is not retryable: not for this caller");
    const std::string looping = letters.add("x.dlq.v1");
    const RedriveReport all =
        manager.retry_all("x.dlq.v1", "ops", [](const store::Letter&) { return std::string(); }).value();
    EXPECT_EQ(all.not_tried, 1) << "it cannot allow what nobody may";
    EXPECT_EQ(status(looping), LetterStatus::pending);
}

TEST_F(ManagerTest, OnlyLettersForKafkaNeedAConnection) {
    Manager other(options(), letters, nullptr, log);
    EXPECT_EQ(other.retry(letters.add_of_lane("memories", "memory"), "ops").answer, RetryAnswer::resolved);
    const std::string spool = letters.add("hooks");
    letters.change(spool, [](FakeLetters::Row& row) { row.detail.letter.source = "spool:hooks"; });
    EXPECT_EQ(other.retry(spool, "ops").message, "message is not retryable: this process has no spools");
    class Taking final : public Spools {
    public:
        std::string refusal(const store::Letter& /*letter*/) override { return {}; }
        std::vector<Outcome> put_back(std::span<const store::LetterDetail> /*letters*/) override {
            return {{.kind = OutcomeKind::delivered}};
        }
    } spools;
    Manager with_spools(options(), letters, nullptr, log, uuid_source(), &spools);
    EXPECT_EQ(with_spools.retry(spool, "ops").answer, RetryAnswer::resolved);
}

/// What the answer says of a retry whose letter is not its own any more.
TEST_F(ManagerTest, AnEndThatFoundNothingToChangeSaysWhy) {
    const auto message_after = [this](const std::function<void(FakeLetters::Row&)>& what) {
        const std::string id = letters.add("orders");
        replayer.before = [this, id, what] {
            letters.change(id, [](FakeLetters::Row& row) { row.owner = "another"; });
            letters.change(id, what);
        };
        const RetryReport report = retry(id);
        EXPECT_EQ(report.answer, RetryAnswer::in_doubt);
        return report.message;
    };
    EXPECT_NE(message_after([](FakeLetters::Row&) {}).find("and another process took it over"), std::string::npos);
    EXPECT_NE(message_after([](FakeLetters::Row& row) {
                  row.detail.letter.status = LetterStatus::dead;
              }).find("it is DEAD now"),
              std::string::npos);
    letters.fault = [this](int, std::string_view call) {
        return call == "find" && letters.calls_of("end_retry") > 2 ? Fault::retryable : Fault::none;
    };
    EXPECT_NE(message_after([](FakeLetters::Row&) {}).find("another process may have taken it over"),
              std::string::npos);
}

TEST_F(ManagerTest, ALetterThatCannotBeReadAgainIsShownAsItsRetryLeavesIt) {
    for (const OutcomeKind kind : {OutcomeKind::delivered, OutcomeKind::permanent}) {
        const std::string id = letters.add("orders");
        answer_all({.kind = kind, .code = "C"});
        letters.fault = [this](int, std::string_view call) {
            const bool second = letters.calls_of("find") % 2 == 0;
            return call == "find" && second ? Fault::retryable : Fault::none;
        };
        const bool sent = kind == OutcomeKind::delivered;
        const RetryReport report = retry(id);
        EXPECT_EQ(report.answer, sent ? RetryAnswer::resolved : RetryAnswer::not_published);
        EXPECT_EQ(report.letter->status, sent ? LetterStatus::resolved : LetterStatus::retrying);
    }
}

/// Deleted behind the recorded end: that the record was refused is what happened.
TEST_F(ManagerTest, ALetterThatIsDeletedAfterItsEndIsAnsweredWithTheEnd) {
    const std::string id = letters.add("orders");
    answer_all({.kind = OutcomeKind::permanent, .code = "TOO_LARGE"});
    letters.fault = [this, id](int, std::string_view call) {
        if (call == "find" && letters.calls_of("end_retry") > 0) static_cast<void>(letters.remove(id, "another"));
        return Fault::none;
    };
    EXPECT_EQ(retry(id).message, "not published: TOO_LARGE; it can be retried");
}

TEST_F(ManagerTest, ALaneLetterThatWasDeletedMeanwhileIsSaidToBe) {
    const std::string id = letters.add_of_lane("memories", "memory");
    letters.fault = [this, id](int, std::string_view call) {
        if (call == "return_to_lane") {
            letters.advance(std::chrono::minutes(1));
            static_cast<void>(letters.remove(id, "another"));
        }
        return Fault::none;
    };
    const RetryReport report = retry(id);
    EXPECT_EQ(report.answer, RetryAnswer::conflict);
    EXPECT_NE(report.message.find("it was deleted meanwhile"), std::string::npos) << report.message;
}

/// The answer was lost, and so was the first attempt to find out.
TEST_F(ManagerTest, ALaneLetterThatIsResolvedIsBackInItsLane) {
    const std::string id = letters.add_of_lane("memories", "memory");
    letters.fault = [this](int, std::string_view call) {
        if (call == "return_to_lane") return Fault::ambiguous_done;
        return call == "end_retry" && letters.calls_of(call) == 1 ? Fault::permanent : Fault::none;
    };
    const RetryReport report = retry(id);
    EXPECT_EQ(report.answer, RetryAnswer::resolved);
    EXPECT_EQ(report.message, "back in its lane memories");
}

TEST_F(ManagerTest, OnlyALostAnswerMayLeaveTheLetterRetrying) {
    for (const Fault fault : {Fault::retryable, Fault::ambiguous_not_done}) {
        letters.fault = [fault](int, std::string_view call) { return call == "begin_retry" ? fault : Fault::none; };
        const std::string message = retry(letters.add("orders")).message;
        EXPECT_EQ(message.find("may stay RETRYING") != std::string::npos, fault == Fault::ambiguous_not_done);
    }
}

TEST_F(ManagerTest, StandAloneNoDestinationIsRefused) {
    ManagerOptions alone = options();
    alone.dead_letter_pattern.clear();
    alone.replay_topics = {"others"};
    Manager other(alone, letters, nullptr, log);
    const std::string id = letters.add("orders");
    letters.change(id, [](FakeLetters::Row& row) { row.detail.letter.topic.reset(); });
    EXPECT_EQ(other.retry(id, "ops").answer, RetryAnswer::resolved);
}

TEST_F(ManagerTest, ARedriveThatIsUnderWayElsewhereIsNamed) {
    ASSERT_TRUE(letters.open_redrive("orders", "another", "ops", std::chrono::seconds(30)).value());
    const RedriveReport report = manager.retry_all("orders", "ops").value();
    EXPECT_TRUE(report.under_way_elsewhere);
    EXPECT_EQ(report.redrive.topic, "orders");
}

}  // namespace
}  // namespace deliverd::deadletter
