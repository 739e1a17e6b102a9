// What the steps of a retry mean: outcomes, reasons and answers.
#include "deadletter/retry_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace deliverd::deadletter {
namespace {

using store::LetterStatus;
using store::RetryEnd;
using store::RetryResult;
using store::RetryVerdict;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

store::Letter letter_of_status(LetterStatus status, std::int32_t retries = 0) {
    store::Letter letter;
    letter.id = "7";
    letter.source = "kafka";
    letter.topic = "orders.dlq.v1";
    letter.provenance.original_topic = "orders";
    letter.status = status;
    letter.retry_count = retries;
    return letter;
}

store::Letter lane_letter(LetterStatus status, const std::string& outbox) {
    store::Letter letter = letter_of_status(status);
    letter.source = "lane:memories";
    letter.topic.reset();
    letter.lane_row = store::LaneRow{"memories", outbox, "1"};
    return letter;
}

std::string why_not_retryable(store::Letter letter) {
    store::LetterDetail detail{.letter = std::move(letter), .record = {}};
    detail.record.value = "v";
    return not_retryable_reason(detail);
}

TEST(RetryRules, AnOutcomeBecomesTheEndOfTheRetry) {
    const auto result = [](const Outcome& outcome) { return end_of("7", outcome).result; };
    EXPECT_EQ(result({.kind = OutcomeKind::delivered}), RetryResult::published);
    EXPECT_EQ(result({.kind = OutcomeKind::ambiguous}), RetryResult::in_doubt);
    EXPECT_EQ(result({.kind = OutcomeKind::retryable}), RetryResult::failed);
    EXPECT_EQ(result({.kind = OutcomeKind::retryable, .not_attempted = true}), RetryResult::not_tried);
    EXPECT_EQ(result({.kind = OutcomeKind::permanent}), RetryResult::failed);
    EXPECT_EQ(end_of("7", {.kind = OutcomeKind::permanent}).id, "7");
    EXPECT_EQ(end_of("7", {.kind = OutcomeKind::delivered}).id, "7");
}

TEST(RetryRules, TheDetailOfAnEndIsOneLineOfWhatIsKnown) {
    const auto detail = [](const Outcome& outcome) { return end_of("7", outcome).detail; };
    EXPECT_EQ(detail({.kind = OutcomeKind::delivered, .detail = "taken", .receipt = "orders[0]\n@1"}), "orders[0] @1");
    EXPECT_EQ(detail({.kind = OutcomeKind::delivered, .detail = "taken"}), "taken");
    EXPECT_EQ(detail({.kind = OutcomeKind::permanent, .code = "TOO_LARGE", .detail = "9 MB"}), "TOO_LARGE: 9 MB");
    EXPECT_EQ(detail({.kind = OutcomeKind::permanent, .code = "TOO_LARGE"}), "TOO_LARGE");
    EXPECT_EQ(detail({.kind = OutcomeKind::permanent, .detail = "two\nlines"}), "two lines");
    EXPECT_EQ(detail({.kind = OutcomeKind::permanent}), "permanent");
    const std::string longer(kMaxDetailBytes + 1, 'x');
    EXPECT_EQ(detail({.kind = OutcomeKind::permanent, .detail = longer}).size(), kMaxDetailBytes);
    EXPECT_EQ(detail({.kind = OutcomeKind::delivered, .detail = longer}).size(), kMaxDetailBytes);
}

TEST(RetryRules, WhatWasTakenOverAndNotTriedIsInDoubt) {
    const RetryEnd end = end_of_taken_over({"7", RetryResult::not_tried, "no broker"});
    EXPECT_EQ(end.id, "7");
    EXPECT_EQ(end.result, RetryResult::in_doubt);
    EXPECT_EQ(end.detail, "an earlier retry did not end, and this one sent nothing: no broker");
    EXPECT_EQ(end_of_taken_over({"7", RetryResult::not_tried, std::string(kMaxDetailBytes, 'x')}).detail.size(),
              kMaxDetailBytes);
    for (const RetryResult other :
         {RetryResult::published, RetryResult::failed, RetryResult::in_doubt, RetryResult::unpublished}) {
        const RetryEnd same = end_of_taken_over({"7", other, "detail"});
        EXPECT_EQ(same.result, other);
        EXPECT_EQ(same.detail, "detail");
    }
}

TEST(RetryRules, OnlyPublishingOrResolvingWithoutItResolves) {
    for (const RetryResult result : {RetryResult::published, RetryResult::unpublished}) {
        EXPECT_TRUE(resolves(result));
        EXPECT_TRUE(is_as_after(letter_of_status(LetterStatus::resolved), result));
        EXPECT_FALSE(is_as_after(letter_of_status(LetterStatus::retrying), result));
    }
    for (const RetryResult result : {RetryResult::failed, RetryResult::in_doubt, RetryResult::not_tried}) {
        EXPECT_FALSE(resolves(result));
        EXPECT_FALSE(is_as_after(letter_of_status(LetterStatus::resolved), result));
        EXPECT_TRUE(is_as_after(letter_of_status(LetterStatus::retrying), result));
    }
}

TEST(RetryRules, ALetterIsRetryableUntilItIsFinishedOrExhausted) {
    EXPECT_EQ(why_not_retryable(letter_of_status(LetterStatus::pending)), "");
    EXPECT_EQ(why_not_retryable(letter_of_status(LetterStatus::retrying, 2)), "");
    EXPECT_EQ(why_not_retryable(letter_of_status(LetterStatus::retrying, 3)), "status=RETRYING, retry_count=3/3");
    EXPECT_EQ(why_not_retryable(letter_of_status(LetterStatus::resolved, 1)), "status=RESOLVED, retry_count=1/3");
    EXPECT_EQ(why_not_retryable(letter_of_status(LetterStatus::dead)), "status=DEAD, retry_count=0/3");
    store::Letter unfinished = letter_of_status(LetterStatus::retrying, 3);
    unfinished.unfinished = true;
    EXPECT_EQ(why_not_retryable(unfinished), "");
    unfinished.status = LetterStatus::dead;
    EXPECT_NE(why_not_retryable(unfinished), "");
}

TEST(RetryRules, OnlyALetterInDoubtIsToBeLookedFor) {
    store::Letter letter = letter_of_status(LetterStatus::retrying, 3);
    letter.in_doubt = true;
    EXPECT_THAT(why_not_retryable(letter), StartsWith("status=RETRYING, retry_count=3/3: its last retry may have"));
    letter.status = LetterStatus::dead;
    EXPECT_EQ(why_not_retryable(letter), "status=DEAD, retry_count=3/3");
}

TEST(RetryRules, AnOrderIsRefusedAsAnOrderWhateverItsState) {
    for (const LetterStatus status : {LetterStatus::dead, LetterStatus::resolved, LetterStatus::pending}) {
        EXPECT_THAT(why_not_retryable(lane_letter(status, "orders")), HasSubstr("dead order"));
    }
    EXPECT_EQ(why_not_retryable(lane_letter(LetterStatus::dead, "memory")), "status=DEAD, retry_count=0/3");
    EXPECT_EQ(why_not_retryable(lane_letter(LetterStatus::pending, "memory")), "");
}

TEST(RetryRules, TheConfiguredPatternRefusesDestinations) {
    store::LetterDetail letter{.letter = letter_of_status(LetterStatus::pending), .record = {}};
    letter.record.value = "v";
    EXPECT_EQ(not_retryable_reason(letter, "*-dlt"), "");
    EXPECT_NE(not_retryable_reason(letter, "ord*"), "");
}

TEST(RetryRules, ADestinationIsAllowedByAnyPatternOrWhereThereAreNone) {
    const std::vector<std::string> patterns = {"orders", "pay.*"};
    EXPECT_EQ(destination_refusal("anything", {}), "");
    EXPECT_EQ(destination_refusal("orders", patterns), "");
    EXPECT_EQ(destination_refusal("pay.eu", patterns), "");
    EXPECT_THAT(destination_refusal("sec\nret", patterns), StartsWith("topic sec ret is not in kafka.replay_topics"));
}

TEST(RetryRules, ChangesByHandHaveTheirStates) {
    for (const LetterStatus open : {LetterStatus::pending, LetterStatus::retrying}) {
        EXPECT_EQ(not_killable_reason(letter_of_status(open)), "");
        EXPECT_NE(not_revivable_reason(letter_of_status(open)), "");
    }
    EXPECT_EQ(not_killable_reason(letter_of_status(LetterStatus::dead)), "status=DEAD, retry_count=0/3");
    EXPECT_EQ(not_killable_reason(letter_of_status(LetterStatus::resolved)), "status=RESOLVED, retry_count=0/3");
    EXPECT_EQ(not_revivable_reason(letter_of_status(LetterStatus::dead)), "");
    EXPECT_EQ(not_revivable_reason(letter_of_status(LetterStatus::resolved)), "status=RESOLVED, retry_count=0/3");
    EXPECT_THAT(not_revivable_reason(lane_letter(LetterStatus::dead, "orders")), HasSubstr("dead order"));
    EXPECT_EQ(not_revivable_reason(lane_letter(LetterStatus::dead, "memory")), "");
}

TEST(RetryRules, ARetryThatDidNotBeginIsAnsweredWithTheReason) {
    const auto answer = [](RetryVerdict verdict) {
        return answer_to(store::RetryClaim{
            .id = "7\n",
            .verdict = verdict,
            .reason = "its row is gone",
            .letter = store::LetterDetail{.letter = letter_of_status(LetterStatus::dead), .record = {}}});
    };
    for (const RetryVerdict verdict : {RetryVerdict::unknown, RetryVerdict::begun}) {
        const RetryReport unknown = answer(verdict);
        EXPECT_EQ(unknown.answer, RetryAnswer::not_found);
        EXPECT_EQ(unknown.message, "message not found: 7 ");
        EXPECT_FALSE(unknown.letter);
    }
    for (const RetryVerdict verdict : {RetryVerdict::finished, RetryVerdict::exhausted}) {
        const RetryReport report = answer(verdict);
        EXPECT_EQ(report.answer, RetryAnswer::conflict);
        EXPECT_EQ(report.message, "message is not retryable: status=DEAD, retry_count=0/3");
        ASSERT_TRUE(report.letter);
        EXPECT_EQ(report.letter->id, "7");
        EXPECT_EQ(answer_to(store::RetryClaim{.id = "7", .verdict = verdict}).message, kNotRetryable);
    }
    EXPECT_EQ(answer(RetryVerdict::under_way).answer, RetryAnswer::conflict);
    EXPECT_EQ(answer(RetryVerdict::under_way).message, "another retry of this message is under way");
    EXPECT_EQ(answer(RetryVerdict::refused).answer, RetryAnswer::conflict);
    EXPECT_EQ(answer(RetryVerdict::refused).message, "message is not retryable: its row is gone");
}

TEST(RetryRules, TheEndOfARetryIsAnswered) {
    const auto answer = [](RetryResult result, const store::Letter& letter) {
        RetryReport report = answer_to(RetryEnd{"7", result, "detail"}, letter);
        EXPECT_TRUE(report.letter && report.letter->id == letter.id);
        return std::pair(report.answer, std::move(report.message));
    };
    const store::Letter kafka = letter_of_status(LetterStatus::retrying, 2);
    const store::Letter lane = lane_letter(LetterStatus::retrying, "memory");
    store::Letter spool = kafka;
    spool.source = "spool:hooks";
    EXPECT_EQ(answer(RetryResult::published, kafka),
              std::pair(RetryAnswer::resolved, std::string("published: detail")));
    EXPECT_EQ(answer(RetryResult::published, lane),
              std::pair(RetryAnswer::resolved, std::string("back in its lane memories")));
    EXPECT_EQ(answer(RetryResult::published, spool), std::pair(RetryAnswer::resolved, std::string("detail")));
    EXPECT_EQ(answer(RetryResult::unpublished, kafka),
              std::pair(RetryAnswer::resolved, std::string("resolved, detail")));
    EXPECT_EQ(answer(RetryResult::failed, kafka),
              std::pair(RetryAnswer::not_published, std::string("not published: detail; it can be retried")));
    EXPECT_EQ(answer(RetryResult::failed, letter_of_status(LetterStatus::dead, 3)),
              std::pair(RetryAnswer::not_published,
                        std::string("not published: detail; that was its last retry, it is DEAD now")));
    EXPECT_EQ(answer(RetryResult::failed, lane),
              std::pair(RetryAnswer::conflict, std::string("not put back into its lane: detail")));
    EXPECT_EQ(answer(RetryResult::in_doubt, kafka),
              std::pair(RetryAnswer::in_doubt,
                        std::string("it may have been published, but no broker confirmed it: detail")));
    const auto [last, last_message] = answer(RetryResult::in_doubt, letter_of_status(LetterStatus::retrying, 3));
    EXPECT_EQ(last, RetryAnswer::in_doubt);
    EXPECT_THAT(last_message, EndsWith("detail; that was its last retry"));
    const auto [not_tried, not_tried_message] = answer(RetryResult::not_tried, kafka);
    EXPECT_EQ(not_tried, RetryAnswer::not_published);
    EXPECT_THAT(not_tried_message, StartsWith("nothing was published: detail; it can be retried"));
}

TEST(RetryRules, AnEndThatCouldNotBeRecordedSaysWhatIsOut) {
    const auto answer = [](RetryResult result) {
        RetryReport report =
            answer_unrecorded({"7", result, "detail"}, letter_of_status(LetterStatus::retrying), "why");
        EXPECT_TRUE(report.letter && report.letter->id == "7");
        return std::pair(report.answer, std::move(report.message));
    };
    const auto [published, published_message] = answer(RetryResult::published);
    EXPECT_EQ(published, RetryAnswer::in_doubt);
    EXPECT_THAT(published_message, StartsWith("published (detail), but that could not be recorded: why"));
    const auto [in_doubt, in_doubt_message] = answer(RetryResult::in_doubt);
    EXPECT_EQ(in_doubt, RetryAnswer::in_doubt);
    EXPECT_EQ(in_doubt_message, "it may have been published (detail), and that could not be recorded: why");
    for (const RetryResult nothing : {RetryResult::failed, RetryResult::not_tried, RetryResult::unpublished}) {
        const auto [none, message] = answer(nothing);
        EXPECT_EQ(none, RetryAnswer::not_published);
        EXPECT_THAT(message, StartsWith("nothing was published: detail. That could not be recorded: why"));
    }
}

TEST(RetryRules, NothingArrivedOnlyIfNoneWasTakenOrRefused) {
    const Outcome away{.kind = OutcomeKind::retryable, .not_attempted = true};
    const Outcome lost{.kind = OutcomeKind::ambiguous};
    EXPECT_FALSE(nothing_arrived({}));
    EXPECT_TRUE(nothing_arrived(std::vector{away}));
    EXPECT_TRUE(nothing_arrived(std::vector{lost, away}));
    for (const OutcomeKind kind : {OutcomeKind::delivered, OutcomeKind::permanent, OutcomeKind::retryable}) {
        EXPECT_FALSE(nothing_arrived(std::vector{away, Outcome{.kind = kind}, lost}));
    }
}

TEST(RetryRules, TheEndOfARedriveSaysWhatFailedAndWhatIsLeft) {
    RedriveReport report{.redrive = {}, .problem = "it was stopped"};
    EXPECT_EQ(how_it_ended(report), "it was stopped");
    report.redrive.failed = 1;
    EXPECT_EQ(how_it_ended(report), "it was stopped; 1 failed");
    report.redrive.finished = true;
    EXPECT_EQ(how_it_ended(report), "it was stopped; 1 failed; what is left can be retried");
    report.redrive.failed = 0;
    report.redrive.in_doubt = 1;
    EXPECT_THAT(how_it_ended(report), StartsWith("it was stopped; 1 may have been published, but no broker confirmed"));
    EXPECT_THAT(how_it_ended(report), EndsWith("a second time; what is left can be retried"));
}

}  // namespace
}  // namespace deliverd::deadletter
