// One batch of letters: where each goes, how its retry ends, and how ends are recorded when the store fails.
#include "deadletter/batch_sender.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "deadletter/retry_rules.h"
#include "deadletter/testing/fake_letters.h"
#include "deadletter/testing/fake_source.h"
#include "deadletter/testing/fakes.h"

namespace deliverd::deadletter {
namespace {

using store::RetryEnd;
using store::RetryResult;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Fault = FakeLetters::Fault;

constexpr const char* kOwner = "this one";

class SpoolsThatAnswer final : public Spools {
public:
    std::string refusal(const store::Letter& /*letter*/) override { return {}; }
    std::vector<Outcome> put_back(std::span<const store::LetterDetail> letters) override {
        for (const store::LetterDetail& letter : letters) asked.push_back(letter.letter.id);
        return answers;
    }
    std::vector<Outcome> answers;
    std::vector<std::string> asked;
};

class BatchSenderTest : public testing::Test {
protected:
    BatchSenderTest() {
        options.store_retry_wait = std::chrono::microseconds(1);
        options.clock = clock;
    }
    std::string add_of_spool() {
        const std::string id = letters.add("hooks");
        letters.change(id, [](FakeLetters::Row& row) {
            row.detail.letter.topic.reset();
            row.detail.letter.source = "spool:hooks";
        });
        return id;
    }
    RetryBatch begin(const std::vector<std::string>& ids) {
        return {letters.begin_retry(ids, {kOwner, "ops", options.retry_lease}).value(), clock->now()};
    }
    SentBatch send(const std::vector<std::string>& ids, std::string_view why_not = {}) {
        std::vector<RetryBatch> batches;
        batches.push_back(begin(ids));
        return sender().send(std::move(batches), why_not);
    }
    BatchSender sender(std::optional<std::string> redrive_topic = std::nullopt) {
        return {{options, letters, replayer_in_use, &spools, log, gate, new_id},
                kOwner,
                "ops",
                rules,
                std::move(redrive_topic)};
    }
    Result<std::int64_t> record(const RetryEnd& end) { return sender().record(std::span(&end, 1)); }
    /// The nth of these calls fails so; 0: all of them.
    void fail(std::string_view name, int nth, Fault fault) {
        letters.fault = [this, name, nth, fault](int, std::string_view call) {
            return call == name && (nth == 0 || letters.calls_of(name) == nth) ? fault : Fault::none;
        };
    }
    store::Letter letter(const std::string& id) { return letters.at(id).detail.letter; }

    std::shared_ptr<HandClock> clock = std::make_shared<HandClock>();
    ManagerOptions options;
    FakeLetters letters;
    FakeReplayer replayer;
    Replayer* replayer_in_use = &replayer;
    SpoolsThatAnswer spools;
    RecordingLog log;
    StopGate gate;
    std::function<std::string()> new_id = [] { return "fresh"; };
    SendRules rules{.refusal = [](const store::LetterDetail&) { return ""; }};
};

TEST_F(BatchSenderTest, EachLetterGoesBackToWhereItCameFrom) {
    const std::string lane = letters.add_of_lane("memories", "memory");
    const std::string spool = add_of_spool();
    const std::string kafka = letters.add("orders");
    spools.answers = {{.kind = OutcomeKind::delivered, .receipt = "back in its spool"}};
    std::vector<RetryBatch> batches;
    batches.push_back(begin({lane, "unknown"}));
    batches.push_back(begin({spool, kafka, kafka}));
    const SentBatch sent = sender().send(std::move(batches));
    ASSERT_THAT(sent.recorded, SizeIs(1));
    EXPECT_EQ(sent.recorded[0].id, lane);
    EXPECT_EQ(sent.recorded[0].result, RetryResult::published);
    ASSERT_THAT(sent.ends, SizeIs(2)) << "what was not begun has no end";
    EXPECT_EQ(sent.ends[0].id, spool);
    EXPECT_EQ(sent.ends[0].detail, "back in its spool");
    EXPECT_EQ(sent.ends[1].id, kafka);
    EXPECT_EQ(sent.ends[1].result, RetryResult::published);
    EXPECT_THAT(spools.asked, ElementsAre(spool));
    EXPECT_THAT(replayer.arrived(), SizeIs(1));
    EXPECT_FALSE(sent.too_late);
    EXPECT_FALSE(sent.spool_forbids);
    EXPECT_EQ(sent.lane_problem + sent.spool_problem, "");
}

TEST_F(BatchSenderTest, NoPortIsAskedForNothing) {
    const SentBatch sent = sender().send({});
    EXPECT_THAT(sent.ends, IsEmpty());
    EXPECT_THAT(letters.calls(), IsEmpty());
    EXPECT_THAT(replayer.batches(), IsEmpty());
}

TEST_F(BatchSenderTest, AClaimWithoutALetterHasNoEnd) {
    RetryBatch batch{.claims = {{.id = "7", .verdict = store::RetryVerdict::begun}}, .begun_at = clock->now()};
    std::vector<RetryBatch> batches;
    batches.push_back(std::move(batch));
    EXPECT_THAT(sender().send(std::move(batches)).ends, IsEmpty());
}

TEST_F(BatchSenderTest, WhatMustNotBePublishedNowStillGoesToLanesAndSpools) {
    const std::string lane = letters.add_of_lane("memories", "memory");
    const std::string spool = add_of_spool();
    const std::string kafka = letters.add("orders");
    spools.answers = {{.kind = OutcomeKind::delivered}};
    std::vector<RetryBatch> batches;
    batches.push_back(begin({lane, spool, kafka}));
    clock->move(options.retry_lease);
    const SentBatch sent = sender().send(std::move(batches), "the redrive ended before it");
    EXPECT_THAT(sent.recorded, SizeIs(1));
    EXPECT_THAT(spools.asked, SizeIs(1));
    EXPECT_THAT(replayer.batches(), IsEmpty());
    ASSERT_THAT(sent.ends, SizeIs(2));
    EXPECT_EQ(sent.ends[0].id, kafka);
    EXPECT_EQ(sent.ends[0].result, RetryResult::not_tried);
    EXPECT_EQ(sent.ends[0].detail, "the redrive ended before it");
    EXPECT_FALSE(sent.too_late) << "it would not have been sent in time either";
}

TEST_F(BatchSenderTest, PublishingHasToEndBeforeTheLease) {
    const std::vector<std::string> ids = {letters.add("orders"), letters.add("orders")};
    std::vector<RetryBatch> batches;
    batches.push_back(begin({ids[0]}));
    clock->move(Duration(1));
    batches.push_back(begin({ids[1]}));
    clock->move(options.retry_lease - options.publish_at_most - Duration(1));
    const SentBatch sent = sender().send(std::move(batches));
    EXPECT_TRUE(sent.too_late);
    ASSERT_THAT(sent.ends, SizeIs(2));
    EXPECT_EQ(sent.ends[0].result, RetryResult::not_tried);
    EXPECT_EQ(sent.ends[0].detail, kTooLate);
    EXPECT_EQ(sent.ends[1].result, RetryResult::published) << "begun a moment later";
}

TEST_F(BatchSenderTest, ALetterThatIsRefusedGoesNowhere) {
    const std::string refused = letters.add("orders");
    const std::string other = letters.add("orders");
    const std::string spool = add_of_spool();
    rules.refusal = [&](const store::LetterDetail& letter) { return letter.letter.id == other ? "" : "not this one"; };
    const SentBatch sent = send({refused, other, spool});
    ASSERT_THAT(sent.ends, SizeIs(3));
    EXPECT_EQ(sent.ends[0].id, refused);
    EXPECT_EQ(sent.ends[0].result, RetryResult::not_tried);
    EXPECT_EQ(sent.ends[0].detail, "not this one");
    EXPECT_EQ(sent.ends[1].id, spool);
    EXPECT_EQ(sent.ends[2].result, RetryResult::published);
    EXPECT_THAT(spools.asked, IsEmpty());
}

TEST_F(BatchSenderTest, StandAloneResolvesWithoutPublishing) {
    options.dead_letter_pattern.clear();
    const SentBatch sent = send({letters.add("orders")}, "anything");
    ASSERT_THAT(sent.ends, SizeIs(1));
    EXPECT_EQ(sent.ends[0].result, RetryResult::unpublished);
    EXPECT_EQ(sent.ends[0].detail, kStandAlone);
    EXPECT_THAT(replayer.batches(), IsEmpty());
}

TEST_F(BatchSenderTest, WithoutAConnectionNothingWasTried) {
    replayer_in_use = nullptr;
    const SentBatch sent = send({letters.add("orders")});
    ASSERT_THAT(sent.ends, SizeIs(1));
    EXPECT_EQ(sent.ends[0].result, RetryResult::not_tried);
    EXPECT_THAT(sent.ends[0].detail, HasSubstr("no connection to Kafka"));
}

TEST_F(BatchSenderTest, AnOutcomeThatIsMissingIsInDoubt) {
    class Silent final : public Replayer {
    public:
        std::vector<Outcome> publish(std::span<const Record> /*records*/) override { return {}; }
        Result<void> check(Duration /*deadline*/) override { return {}; }
        void stop() override {}
    } silent;
    replayer_in_use = &silent;
    const SentBatch sent = send({add_of_spool(), letters.add("orders")});
    ASSERT_THAT(sent.ends, SizeIs(2));
    for (const RetryEnd& end : sent.ends) {
        EXPECT_EQ(end.result, RetryResult::in_doubt);
        EXPECT_EQ(end.detail, "NO_OUTCOME");
    }
    EXPECT_EQ(sent.spool_problem, "NO_OUTCOME");
}

TEST_F(BatchSenderTest, TheReviewSeesEachRecordAndMayChangeItsOutcome) {
    rules.review = [](std::span<const Record> records, std::span<Outcome> outcomes) {
        ASSERT_EQ(records.size(), outcomes.size());
        for (std::size_t i = 0; i < records.size(); ++i) {
            if (records[i].topic == "bills") outcomes[i] = {.kind = OutcomeKind::permanent, .code = "REVIEWED"};
        }
    };
    const SentBatch sent = send({letters.add("orders"), letters.add("bills")});
    ASSERT_THAT(sent.ends, SizeIs(2));
    EXPECT_EQ(sent.ends[0].result, RetryResult::published);
    EXPECT_EQ(sent.ends[1].detail, "REVIEWED");
}

TEST_F(BatchSenderTest, WhatWasTakenOverAndNotSentStaysInDoubt) {
    const std::string taken = letters.add("orders");
    static_cast<void>(letters.begin_retry(std::span(&taken, 1), {"one that died", "ops", Duration(0)}));
    replayer.answer = [](const Record&) {
        return Outcome{.kind = OutcomeKind::retryable, .code = "AWAY", .not_attempted = true};
    };
    const SentBatch sent = send({taken, letters.add("orders")});
    ASSERT_THAT(sent.ends, SizeIs(2));
    EXPECT_EQ(sent.ends[0].result, RetryResult::in_doubt);
    EXPECT_EQ(sent.ends[1].result, RetryResult::not_tried);
}

TEST_F(BatchSenderTest, OnlyWhatASpoolMayHaveTakenCounts) {
    const auto end_after = [this](Outcome outcome) {
        spools.answers = {std::move(outcome)};
        return send({add_of_spool()});
    };
    const SentBatch forbidden = end_after({.kind = OutcomeKind::permanent, .detail = "its entry is resolved"});
    EXPECT_EQ(forbidden.ends.at(0).result, RetryResult::not_tried);
    EXPECT_EQ(forbidden.ends.at(0).detail, "its entry is resolved");
    EXPECT_TRUE(forbidden.spool_forbids);
    EXPECT_EQ(forbidden.spool_problem, "") << "other entries of the file may go";
    const SentBatch failed = end_after({.kind = OutcomeKind::retryable, .code = "io_error"});
    EXPECT_EQ(failed.ends.at(0).result, RetryResult::not_tried);
    EXPECT_FALSE(failed.spool_forbids);
    EXPECT_EQ(failed.spool_problem, "");
    const SentBatch lost = end_after({.kind = OutcomeKind::ambiguous, .code = "io_error", .detail = "fsync"});
    EXPECT_EQ(lost.ends.at(0).result, RetryResult::in_doubt);
    EXPECT_EQ(lost.spool_problem, "io_error: fsync");
    const SentBatch busy = end_after({.kind = OutcomeKind::retryable, .code = "spool_busy", .not_attempted = true});
    EXPECT_EQ(busy.ends.at(0).result, RetryResult::not_tried);
    EXPECT_EQ(busy.spool_problem, "spool_busy");
    EXPECT_EQ(end_after({.kind = OutcomeKind::delivered}).ends.at(0).result, RetryResult::published);
}

TEST_F(BatchSenderTest, OneForbiddenEntryOfSeveralIsReported) {
    spools.answers = {{.kind = OutcomeKind::permanent}, {.kind = OutcomeKind::delivered}};
    EXPECT_TRUE(send({add_of_spool(), add_of_spool()}).spool_forbids);
}

// --- lanes ---------------------------------------------------------------------------------------------------------

TEST_F(BatchSenderTest, ALaneThatCannotTakeARowSaysWhy) {
    const std::string gone = letters.add_of_lane("memories", "memory");
    letters.change(gone, [](FakeLetters::Row& row) { row.lane_row_gone = true; });
    const SentBatch sent = send({gone, letters.add_of_lane("memories", "memory")});
    ASSERT_THAT(sent.recorded, SizeIs(2));
    EXPECT_EQ(sent.recorded[0].result, RetryResult::failed);
    EXPECT_EQ(sent.recorded[0].detail, "the row is gone");
    EXPECT_EQ(sent.recorded[1].result, RetryResult::published);
}

TEST_F(BatchSenderTest, AStoreThatFailsBeforeTheLaneHasNotTried) {
    fail("return_to_lane", 0, Fault::retryable);
    const SentBatch sent = send({letters.add_of_lane("memories", "memory")});
    EXPECT_THAT(sent.recorded, IsEmpty());
    ASSERT_THAT(sent.ends, SizeIs(1));
    EXPECT_EQ(sent.ends[0].result, RetryResult::not_tried);
    EXPECT_EQ(sent.ends[0].detail, "the store failed: switched off");
    EXPECT_EQ(sent.lane_problem, "switched off");
    EXPECT_EQ(letters.calls_of("end_retry"), 0) << "nothing is in doubt";
}

TEST_F(BatchSenderTest, ALostAnswerAboutLanesIsFoundOut) {
    for (const bool done : {true, false}) {
        const std::vector<std::string> ids = {letters.add_of_lane("memories", "memory"),
                                              letters.add_of_lane("memories", "memory")};
        fail("return_to_lane", 0, done ? Fault::ambiguous_done : Fault::ambiguous_not_done);
        const SentBatch sent = send(ids);
        EXPECT_THAT(sent.ends, IsEmpty());
        ASSERT_THAT(sent.recorded, SizeIs(2));
        for (std::size_t i = 0; i < ids.size(); ++i) {
            EXPECT_EQ(sent.recorded[i].id, ids[i]);
            EXPECT_EQ(sent.recorded[i].result, done ? RetryResult::published : RetryResult::not_tried);
            EXPECT_EQ(letter(ids[i]).retry_count, done ? 1 : 0);
        }
        EXPECT_EQ(sent.lane_problem, done ? "" : "the answer was lost");
    }
}

/// The first letter's lease had run out, and another process has returned its row. The second was still this one's.
TEST_F(BatchSenderTest, WhatAnotherProcessReturnedDoesNotStandForTheOthers) {
    const std::vector<std::string> ids = {letters.add_of_lane("memories", "memory"),
                                          letters.add_of_lane("memories", "memory")};
    letters.fault = [&](int, std::string_view call) {
        if (call != "return_to_lane") return Fault::none;
        letters.change(ids[0], [](FakeLetters::Row& row) {
            row.owner.reset();
            row.detail.letter.status = store::LetterStatus::resolved;
        });
        return Fault::ambiguous_not_done;
    };
    const SentBatch sent = send(ids);
    ASSERT_THAT(sent.recorded, SizeIs(2));
    EXPECT_EQ(sent.recorded[1].result, RetryResult::not_tried);
    EXPECT_EQ(sent.lane_problem, "the answer was lost");
}

TEST_F(BatchSenderTest, WhereTheLettersDoNotShowItLanesAreTriedAgainLater) {
    // The store fails again when it is asked; the letter was deleted; another owner has it.
    for (const char* what : {"end_retry", "find", "deleted", "taken"}) {
        SCOPED_TRACE(what);
        const std::string id = letters.add_of_lane("memories", "memory");
        letters.fault = [&](int, std::string_view call) {
            if (call == what) return Fault::permanent;
            if (call != "return_to_lane") return Fault::none;
            if (std::string_view(what) == "taken") letters.change(id, [](auto& row) { row.owner = "another"; });
            if (std::string_view(what) == "find") letters.change(id, [](auto& row) { row.owner = "another"; });
            if (std::string_view(what) == "deleted") {
                letters.advance(std::chrono::hours(1));
                static_cast<void>(letters.remove(id, "ops"));
            }
            return Fault::ambiguous_not_done;
        };
        const SentBatch sent = send({id});
        EXPECT_THAT(sent.recorded, IsEmpty());
        ASSERT_THAT(sent.ends, SizeIs(1));
        EXPECT_EQ(sent.ends[0].result, RetryResult::not_tried);
        EXPECT_EQ(sent.lane_problem, "the answer was lost");
    }
}

// --- recording -----------------------------------------------------------------------------------------------------

TEST_F(BatchSenderTest, EndsOfARedriveCountForIt) {
    const std::string id = letters.add("orders");
    ASSERT_TRUE(letters.open_redrive("orders", kOwner, "ops", options.retry_lease).value());
    static_cast<void>(begin({id}));
    const RetryEnd end{id, RetryResult::published};
    EXPECT_EQ(sender("orders").record(std::span(&end, 1)).value(), 1);
    EXPECT_EQ(letters.calls_of("end_of_redrive_page"), 1);
    EXPECT_EQ(letters.calls_of("end_retry"), 0);
}

TEST_F(BatchSenderTest, AnEndIsRecordedAgainUntilTheStoreAnswers) {
    const std::string id = letters.add("orders");
    static_cast<void>(begin({id}));
    fail("end_retry", 1, Fault::retryable);
    EXPECT_EQ(record({id, RetryResult::published}).value(), 1);
    EXPECT_EQ(letters.calls_of("end_retry"), 2);
    EXPECT_EQ(letters.calls_of("find"), 0) << "the answers were certain";
}

TEST_F(BatchSenderTest, WhatIsSomebodyElsesByNowIsNotRecorded) {
    const std::string id = letters.add("orders");
    static_cast<void>(begin({id}));
    letters.change(id, [](FakeLetters::Row& row) {
        row.owner = "another";
        row.detail.letter.status = store::LetterStatus::resolved;
    });
    EXPECT_EQ(record({id, RetryResult::published}).value(), 0);
    EXPECT_EQ(letters.calls_of("find"), 0);
}

/// The first answer is lost, the repeat finds nothing to do.
TEST_F(BatchSenderTest, TheLetterShowsWhetherALostEndWasRecorded) {
    for (const RetryResult result : {RetryResult::published, RetryResult::failed}) {
        const std::string id = letters.add("orders");
        static_cast<void>(begin({id}));
        const auto before = letters.calls_of("end_retry");
        fail("end_retry", static_cast<int>(before) + 1, Fault::ambiguous_done);
        EXPECT_EQ(record({id, result}).value(), 1);
        EXPECT_EQ(letters.calls_of("end_retry"), before + 2);
    }
}

TEST_F(BatchSenderTest, ALetterThatIsNotAsTheEndLeavesItWasNotRecorded) {
    // Another process has it by now, or it was deleted.
    for (const bool deleted : {false, true}) {
        const std::string id = letters.add("orders");
        static_cast<void>(begin({id}));
        int calls = 0;
        letters.fault = [&](int, std::string_view call) {
            if (call != "end_retry" || ++calls > 1) return Fault::none;
            letters.change(id, [](FakeLetters::Row& row) { row.owner = "another"; });
            if (deleted) {
                letters.advance(std::chrono::hours(1));
                static_cast<void>(letters.remove(id, "ops"));
            }
            return Fault::ambiguous_not_done;
        };
        EXPECT_EQ(record({id, RetryResult::published}).value(), 0) << deleted;
    }
}

/// After the lost answer the store fails for good. Only a letter that is RESOLVED shows that the end was recorded.
TEST_F(BatchSenderTest, OnlyAResolvedLetterShowsAnEndWithoutAnotherAnswer) {
    for (const RetryResult result : {RetryResult::published, RetryResult::failed}) {
        const std::string id = letters.add("orders");
        static_cast<void>(begin({id}));
        int calls = 0;
        letters.fault = [&calls](int, std::string_view call) {
            if (call != "end_retry") return Fault::none;
            return ++calls == 1 ? Fault::ambiguous_done : Fault::permanent;
        };
        const auto recorded = record({id, result});
        EXPECT_EQ(recorded.has_value(), result == RetryResult::published);
    }
}

TEST_F(BatchSenderTest, ARepeatThatRecordsSomeIsTakenAtItsWord) {
    const std::vector<std::string> ids = {letters.add("orders"), letters.add("orders")};
    static_cast<void>(begin(ids));
    letters.change(ids[1], [](FakeLetters::Row& row) { row.owner = "another"; });
    fail("end_retry", 1, Fault::ambiguous_not_done);
    const std::vector<RetryEnd> ends = {{ids[0], RetryResult::published}, {ids[1], RetryResult::published}};
    EXPECT_EQ(sender().record(ends).value(), 1);
}

TEST_F(BatchSenderTest, OneEndThatResolvesShowsTheOthersToo) {
    const std::vector<std::string> ids = {letters.add("orders"), letters.add("orders")};
    static_cast<void>(begin(ids));
    int calls = 0;
    letters.fault = [&calls](int, std::string_view call) {
        if (call != "end_retry") return Fault::none;
        return ++calls == 1 ? Fault::ambiguous_done : Fault::permanent;
    };
    const std::vector<RetryEnd> ends = {{ids[0], RetryResult::failed}, {ids[1], RetryResult::published}};
    EXPECT_EQ(sender().record(ends).value(), 2);
}

TEST_F(BatchSenderTest, ALetterThatCannotBeReadShowsNothing) {
    const std::string id = letters.add("orders");
    static_cast<void>(begin({id}));
    int calls = 0;
    letters.fault = [&calls](int, std::string_view call) {
        if (call == "find") return Fault::permanent;
        return call == "end_retry" && ++calls == 1 ? Fault::ambiguous_done : Fault::none;
    };
    EXPECT_EQ(record({id, RetryResult::published}).value(), 0);
}

TEST_F(BatchSenderTest, OfSeveralEndsOneThatResolvesIsLookedAt) {
    const std::vector<std::string> ids = {letters.add("orders"), letters.add("orders")};
    static_cast<void>(begin(ids));
    int calls = 0;
    letters.fault = [&](int, std::string_view call) {
        if (call != "end_retry" || ++calls > 1) return Fault::none;
        for (const std::string& id : ids) letters.change(id, [](auto& row) { row.owner = "another"; });
        return Fault::ambiguous_not_done;
    };
    const std::vector<RetryEnd> ends = {{ids[0], RetryResult::failed}, {ids[1], RetryResult::published}};
    EXPECT_EQ(sender().record(ends).value(), 0) << "the first looks as if it were recorded, the second does not";
}

}  // namespace
}  // namespace deliverd::deadletter
