#include "sink/rabbitmq/closing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace deliverd::sink {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kRetryable = OutcomeKind::retryable;
constexpr auto kPermanent = OutcomeKind::permanent;
constexpr auto kAmbiguous = OutcomeKind::ambiguous;

class Closing : public testing::Test {
protected:
    std::vector<OutcomeKind> kinds(const ChannelClosed& closed, std::size_t count, bool last_is_part = false,
                                   bool has_more = false) {
        std::vector<Job> jobs;
        for (std::size_t i = 0; i < count; ++i) {
            messages_[i].body = std::string(10 * (i + 1), 'x');
            jobs.push_back({&messages_[i], nullptr, {}});
        }
        verdicts_ = judge_closing(closed, {jobs, last_is_part, has_more});
        std::vector<OutcomeKind> out;
        for (const auto& verdict : verdicts_) out.push_back(verdict.kind);
        return out;
    }

    std::array<Message, 5> messages_;
    std::vector<Verdict> verdicts_;
};

TEST_F(Closing, TheOnlyMessageUnderWayIsTheRefusedOne) {
    EXPECT_THAT(kinds({404, "NOT_FOUND - no exchange 'x'"}, 1), ElementsAre(kRetryable));
    EXPECT_EQ(verdicts_[0].code, "NO_EXCHANGE");
    EXPECT_THAT(verdicts_[0].detail, HasSubstr("create the exchange"));
    EXPECT_THAT(kinds({403, "ACCESS_REFUSED"}, 1), ElementsAre(kRetryable));
    EXPECT_EQ(verdicts_[0].code, "ACCESS_REFUSED");
    EXPECT_THAT(verdicts_[0].detail, HasSubstr("allow the user to write"));
    EXPECT_THAT(kinds({406, "PRECONDITION_FAILED - odd"}, 1), ElementsAre(kPermanent));
    EXPECT_EQ(verdicts_[0].code, "PRECONDITION_FAILED");
}

TEST_F(Closing, TheReportedSizeIdentifiesTheRefusedMessage) {
    const ChannelClosed closed{406, "PRECONDITION_FAILED - message size 30 is larger than configured max size 25"};
    EXPECT_THAT(kinds(closed, 5), ElementsAre(kAmbiguous, kAmbiguous, kPermanent, kRetryable, kRetryable));
    for (const auto& verdict : verdicts_) EXPECT_FALSE(verdict.is_suspect);
    EXPECT_THAT(verdicts_[2].detail, HasSubstr("size 25"));
    EXPECT_EQ(verdicts_[1].code, "CHANNEL_CLOSED");
    EXPECT_EQ(verdicts_[2].code, "PRECONDITION_FAILED");
    EXPECT_EQ(verdicts_[3].code, "CHANNEL_CLOSED");
}

TEST_F(Closing, TheFirstMessageCanBeTheRefusedOne) {
    EXPECT_THAT(kinds({406, "message size 10 is larger than 5"}, 2), ElementsAre(kPermanent, kRetryable));
}

TEST_F(Closing, AnUnreadableSizeBlamesNoMessage) {
    for (const auto* reason : {"PRECONDITION_FAILED - message size 30 is odd", "message size x is larger than 25"}) {
        EXPECT_THAT(kinds({406, reason}, 3), ElementsAre(kAmbiguous, kAmbiguous, kAmbiguous)) << reason;
        EXPECT_TRUE(verdicts_[2].is_suspect);
        EXPECT_EQ(verdicts_[2].code, "PRECONDITION_FAILED");
    }
    EXPECT_THAT(kinds({541, "message size 30 is larger than 25"}, 3), ElementsAre(kAmbiguous, kAmbiguous, kAmbiguous))
        << "the closing is not about a message";
    EXPECT_FALSE(verdicts_[2].is_suspect);
    const std::array<Job, 2> empty_ones = {{{&messages_[3], nullptr, {}}, {&messages_[4], nullptr, {}}}};
    verdicts_ = judge_closing({406, "message size x is larger than 5"}, {empty_ones});
    EXPECT_EQ(verdicts_[0].kind, kAmbiguous) << "no size is not a size of 0";
}

TEST_F(Closing, OtherwiseAllAreSuspectAndMayHaveArrived) {
    EXPECT_THAT(kinds({406, "PRECONDITION_FAILED - odd"}, 3), ElementsAre(kAmbiguous, kAmbiguous, kAmbiguous));
    for (const auto& verdict : verdicts_) EXPECT_TRUE(verdict.is_suspect);
    EXPECT_THAT(kinds({406, "message size 7 is larger than max size 5"}, 2), ElementsAre(kAmbiguous, kAmbiguous));
}

TEST_F(Closing, TheOnlyMessageIsNotBlamedWhileOthersAreUnanswered) {
    EXPECT_THAT(kinds({406, "PRECONDITION_FAILED - odd"}, 1, false, true), ElementsAre(kAmbiguous));
    EXPECT_TRUE(verdicts_[0].is_suspect);
}

TEST_F(Closing, AClosingThatIsNotAboutAMessageBlamesNoMessage) {
    EXPECT_THAT(kinds({541, "INTERNAL_ERROR"}, 1), ElementsAre(kAmbiguous));
    EXPECT_FALSE(verdicts_[0].is_suspect);
    EXPECT_EQ(verdicts_[0].code, "CHANNEL_CLOSED");
}

TEST_F(Closing, AMessageSentInPartIsNeitherTakenNorBlamed) {
    EXPECT_THAT(kinds({404, "NOT_FOUND"}, 2, true), ElementsAre(kRetryable, kRetryable));
    EXPECT_EQ(verdicts_[0].code, "NO_EXCHANGE");
    EXPECT_EQ(verdicts_[1].code, "CHANNEL_CLOSED");
    EXPECT_THAT(kinds({541, "INTERNAL_ERROR"}, 2, true), ElementsAre(kAmbiguous, kRetryable));
}

TEST_F(Closing, WithNothingUnderWayThereAreNoVerdicts) {
    EXPECT_TRUE(kinds({541, "INTERNAL_ERROR"}, 0).empty());
    EXPECT_TRUE(kinds({541, "INTERNAL_ERROR"}, 0, true).empty());
    EXPECT_EQ(code_of_closing(541), "CHANNEL_CLOSED");
}

}  // namespace
}  // namespace deliverd::sink
