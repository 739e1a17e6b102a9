#include "pipeline/decide.h"

#include <gtest/gtest.h>

#include "message/retry_after.h"

namespace deliverd::pipeline {
namespace {

using store::RowPhase;
using store::RowState;
using store::SettleKind;
using store::Settlement;

class Decide : public ::testing::Test {
protected:
    Settlement decide_after(std::int32_t failures, Outcome outcome) {
        Message message;
        message.id = 7;
        message.failures = failures;
        return decide(message, outcome, policy, std::chrono::hours(1), random);
    }

    RetryPolicy policy = RetryPolicy::leases(5);
    SeededRandom random{1};
};

TEST_F(Decide, DeliveredIsSentWithItsReceipt) {
    const ReceiverAnswer answer{"{}", "sha256:0"};
    const Settlement settlement = decide_after(
        2, {.kind = OutcomeKind::delivered, .code = "CONFLICT_PROCESSED", .receipt = "m-1", .answer = answer});
    EXPECT_EQ(settlement.kind, SettleKind::sent);
    EXPECT_EQ(settlement.receipt, "m-1");
    EXPECT_EQ(settlement.code, "CONFLICT_PROCESSED");
    ASSERT_TRUE(settlement.answer);
    EXPECT_EQ(settlement.answer->digest, "sha256:0");
    EXPECT_EQ(settlement.id, 7);
    EXPECT_EQ(settlement.failures_before, 2);
}

TEST_F(Decide, ARetryableFailureWaitsAsThePolicyDemands) {
    const Settlement settlement = decide_after(0, {.kind = OutcomeKind::retryable, .code = "BROKER_5XX"});
    EXPECT_EQ(settlement.kind, SettleKind::retry);
    EXPECT_GE(settlement.delay, std::chrono::seconds(84));
    EXPECT_LE(settlement.delay, std::chrono::seconds(156));
}

TEST_F(Decide, TheLastFailureIsDead) {
    EXPECT_EQ(decide_after(3, {.kind = OutcomeKind::retryable}).kind, SettleKind::retry);
    EXPECT_EQ(decide_after(4, {.kind = OutcomeKind::retryable}).kind, SettleKind::dead);
    EXPECT_EQ(decide_after(4, {.kind = OutcomeKind::ambiguous}).kind, SettleKind::dead);
}

TEST_F(Decide, PermanentIsDeadAtOnce) {
    const Settlement settlement =
        decide_after(0, {.kind = OutcomeKind::permanent, .code = "BAD_REQUEST", .detail = "400"});
    EXPECT_EQ(settlement.kind, SettleKind::dead);
    EXPECT_EQ(settlement.error, "BAD_REQUEST: 400");
}

TEST_F(Decide, AnAmbiguousOutcomeIsNamedSo) {
    const Settlement settlement =
        decide_after(0, {.kind = OutcomeKind::ambiguous, .code = "NETWORK_TIMEOUT", .detail = "no answer in 5 s"});
    EXPECT_EQ(settlement.kind, SettleKind::retry);
    EXPECT_EQ(settlement.error, "NETWORK_TIMEOUT (ambiguous: the receiver may have it): no answer in 5 s");
}

TEST_F(Decide, AFailureWithoutACodeIsNamedFailed) {
    EXPECT_EQ(decide_after(0, {.kind = OutcomeKind::retryable}).error, "FAILED");
    EXPECT_EQ(decide_after(0, {.kind = OutcomeKind::permanent, .detail = "gone"}).error, "FAILED: gone");
}

TEST_F(Decide, OnlyAnAmbiguousOutcomeIsInDoubt) {
    for (const std::int32_t failures : {0, 4}) {  // a retry, and the last attempt
        EXPECT_TRUE(decide_after(failures, {.kind = OutcomeKind::ambiguous}).in_doubt) << failures;
        EXPECT_FALSE(decide_after(failures, {.kind = OutcomeKind::retryable}).in_doubt) << failures;
        EXPECT_FALSE(decide_after(failures, {.kind = OutcomeKind::permanent}).in_doubt) << failures;
        EXPECT_FALSE(decide_after(failures, {.kind = OutcomeKind::delivered}).in_doubt) << failures;
    }
}

TEST_F(Decide, ALaneWaitsForAsManyDaysAsTheReceiverAsks) {
    Message message;
    const Outcome outcome{.kind = OutcomeKind::retryable, .retry_after = std::chrono::hours(48)};
    EXPECT_EQ(decide(message, outcome, policy, kLongestRetryAfter, random).delay, std::chrono::hours(48));
}

TEST_F(Decide, RetryAfterOnlyLengthensAndIsCapped) {
    const auto delay = [&](Duration asked) {
        return decide_after(0, {.kind = OutcomeKind::retryable, .retry_after = asked}).delay;
    };
    EXPECT_LE(delay(std::chrono::seconds(1)), std::chrono::seconds(156));
    EXPECT_GE(delay(std::chrono::seconds(1)), std::chrono::seconds(84));
    EXPECT_EQ(delay(std::chrono::seconds(600)), std::chrono::seconds(600));
    EXPECT_EQ(delay(std::chrono::hours(48)), std::chrono::hours(1));
}

TEST(TookEffectEarlier, RecognisesOnlyARowAsTheEarlierTryLeftIt) {
    const Settlement sent{.id = 1, .kind = SettleKind::sent};
    const Settlement retry{.id = 1, .kind = SettleKind::retry, .failures_before = 1, .error = "E"};
    const Settlement dead{.id = 1, .kind = SettleKind::dead, .failures_before = 1, .error = "E"};

    EXPECT_TRUE(took_effect_earlier(sent, RowState{.phase = RowPhase::sent}));
    EXPECT_FALSE(took_effect_earlier(sent, RowState{.phase = RowPhase::open}));
    EXPECT_TRUE(took_effect_earlier(retry, RowState{.failures = 2, .last_error = "E"}));
    EXPECT_FALSE(took_effect_earlier(retry, RowState{.failures = 2, .last_error = "other"}));
    EXPECT_FALSE(took_effect_earlier(retry, RowState{.failures = 1, .last_error = "E"}));
    // Somebody has already claimed it again: it was recorded all the same.
    EXPECT_TRUE(took_effect_earlier(retry, RowState{.failures = 2, .locked_by = "w2", .last_error = "E"}));
    EXPECT_TRUE(took_effect_earlier(dead, RowState{.phase = RowPhase::dead, .failures = 2, .last_error = "E"}));
    EXPECT_FALSE(took_effect_earlier(dead, RowState{.phase = RowPhase::dead, .failures = 2, .last_error = "other"}));
    EXPECT_FALSE(took_effect_earlier(dead, RowState{.phase = RowPhase::sent, .failures = 1, .last_error = "E"}));
}

TEST(TookEffectEarlier, DoesNotTakeAnOpenRowForDeadOrADeadOneForOpen) {
    const Settlement retry{.id = 1, .kind = SettleKind::retry, .failures_before = 1, .error = "E"};
    const Settlement dead{.id = 1, .kind = SettleKind::dead, .failures_before = 1, .error = "E"};
    const Settlement duplicate{.id = 1, .kind = SettleKind::duplicate};
    EXPECT_FALSE(took_effect_earlier(retry, RowState{.phase = RowPhase::dead, .failures = 2, .last_error = "E"}));
    EXPECT_FALSE(took_effect_earlier(dead, RowState{.phase = RowPhase::open, .failures = 2, .last_error = "E"}));
    EXPECT_TRUE(took_effect_earlier(duplicate, RowState{.phase = RowPhase::sent}));
    EXPECT_FALSE(took_effect_earlier(duplicate, RowState{.phase = RowPhase::dead}));
}

TEST(SettleAsDuplicate, KeepsTheRowAndTheReceiptOfTheFirst) {
    Message message;
    message.id = 7;
    message.failures = 2;
    const Settlement settlement = settle_as_duplicate(message, "m-1");
    EXPECT_EQ(settlement.id, 7);
    EXPECT_EQ(settlement.kind, SettleKind::duplicate);
    EXPECT_EQ(settlement.failures_before, 2);
    EXPECT_EQ(settlement.receipt, "m-1");
}

TEST(StillOurs, OnlyAnOpenRowThatWeLockedAndThatHasNotChanged) {
    const Settlement settlement{.id = 1, .kind = SettleKind::retry, .failures_before = 1};
    const RowState ours{.failures = 1, .locked_by = "w1"};
    EXPECT_TRUE(still_ours(settlement, ours, "w1"));
    EXPECT_FALSE(still_ours(settlement, ours, "w2"));
    EXPECT_FALSE(still_ours(settlement, RowState{.failures = 2, .locked_by = "w1"}, "w1"));
    EXPECT_FALSE(still_ours(settlement, RowState{.phase = RowPhase::dead, .failures = 1, .locked_by = "w1"}, "w1"));
}

}  // namespace
}  // namespace deliverd::pipeline
