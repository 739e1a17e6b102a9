#include "pipeline/destinations.h"

#include <gtest/gtest.h>

namespace deliverd::pipeline {
namespace {

using May = Destinations::May;
using Refusal = Destinations::Refusal;

constexpr Duration kSecond = std::chrono::seconds(1);

class DestinationsTest : public ::testing::Test {
protected:
    /// One that was sent just now, or `ago`.
    Refusal refused(std::string_view topic, Duration ago = {}, std::string_view code = "NO_LEADER") {
        const Outcome why{.kind = OutcomeKind::retryable, .code = std::string(code)};
        return destinations_.refused(topic, now_ - ago, now_ - ago, now_, kSecond, why);
    }
    bool delivered(std::string_view topic, Duration ago = {}) {
        return destinations_.attempted(topic, now_ - ago, true);
    }
    May ask(std::string_view topic) { return destinations_.ask(topic, now_); }

    Destinations destinations_{1};
    Instant now_ = Instant(std::chrono::hours(1));
};

TEST_F(DestinationsTest, ATopicThatAcceptsNothingIsTriedOncePerPause) {
    EXPECT_EQ(ask("a"), May::go);
    EXPECT_EQ(refused("a"), Refusal::waits);
    EXPECT_EQ(ask("a"), May::wait);
    EXPECT_EQ(ask("b"), May::go);
    EXPECT_EQ(destinations_.first_end(), now_ + kSecond);
    now_ += kSecond;
    EXPECT_EQ(ask("a"), May::go);
    EXPECT_EQ(ask("a"), May::wait) << "one is on trial";
    now_ += Destinations::kTrial;
    EXPECT_EQ(ask("a"), May::go) << "nobody knows what became of that one";
    EXPECT_TRUE(destinations_.attempted("a", now_, false)) << "whatever came of it, it was taken to be tried";
    EXPECT_EQ(ask("a"), May::go);
    EXPECT_TRUE(destinations_.all_open());
}

TEST_F(DestinationsTest, TrialsAreSharedByThePausedTopics) {
    Destinations destinations(5);
    const Outcome why{.kind = OutcomeKind::retryable};
    for (const char* topic : {"a", "b"}) {
        EXPECT_EQ(destinations.refused(topic, now_, now_, now_, kSecond, why), Refusal::waits);
    }
    now_ += kSecond;
    for (int i = 0; i < 2; ++i) EXPECT_EQ(destinations.ask("a", now_), May::go);
    EXPECT_EQ(destinations.ask("a", now_), May::wait);
    EXPECT_EQ(destinations.ask("b", now_), May::go);
    EXPECT_EQ(destinations.refused("b", now_, now_, now_, kSecond, why), Refusal::waits);
    EXPECT_EQ(destinations.ask("b", now_), May::wait) << "the first one's outcome is enough";
}

TEST_F(DestinationsTest, EachPausedTopicIsTriedHoweverManyThereAre) {
    EXPECT_EQ(destinations_.first_end(), Instant::max());
    EXPECT_EQ(refused("a"), Refusal::waits);
    now_ += kSecond / 2;
    EXPECT_EQ(refused("b"), Refusal::waits);
    EXPECT_EQ(destinations_.first_end(), now_ + kSecond / 2);
    now_ += kSecond;
    for (const char* topic : {"a", "b"}) {
        EXPECT_EQ(ask(topic), May::go);
        EXPECT_EQ(ask(topic), May::wait);
    }
}

TEST_F(DestinationsTest, ADeliveryElsewhereCountsIfItWasSentAfterTheRefusal) {
    for (const Duration later : {Duration::zero(), Duration(1)}) {
        EXPECT_EQ(refused("a"), Refusal::waits);
        const Duration since = kSecond - later;
        now_ += kSecond;
        EXPECT_FALSE(delivered("b", since));
        EXPECT_EQ(ask("a"), May::go);
        EXPECT_EQ(refused("a"), later == Duration::zero() ? Refusal::waits : Refusal::counts_alone);
        EXPECT_TRUE(destinations_.attempted("a", now_, false));
    }
}

TEST_F(DestinationsTest, ADeliveryToTheSameTopicCountsIfItWasSentNoEarlier) {
    EXPECT_FALSE(delivered("a", kSecond));
    EXPECT_FALSE(delivered("b", kSecond));
    EXPECT_EQ(refused("a", kSecond), Refusal::counts);
    EXPECT_FALSE(delivered("a", 2 * kSecond)) << "the answer of one that was sent before";
    EXPECT_EQ(refused("a", kSecond), Refusal::counts);
    EXPECT_EQ(refused("a", kSecond - Duration(1)), Refusal::waits);
}

TEST_F(DestinationsTest, ATopicIsAloneIfRefusedAgainAfterADeliveryElsewhere) {
    EXPECT_EQ(refused("a"), Refusal::waits);
    EXPECT_FALSE(delivered("b", kSecond)) << "sent before: the receiver may be gone since";
    EXPECT_FALSE(destinations_.attempted("b", now_, false)) << "not delivered";
    now_ += kSecond;
    EXPECT_EQ(ask("a"), May::go);
    EXPECT_EQ(refused("a"), Refusal::waits);
    EXPECT_FALSE(delivered("b"));
    EXPECT_EQ(ask("a"), May::wait) << "nothing was tried since: it may be back as well";
    EXPECT_EQ(refused("a", kSecond), Refusal::waits) << "sent before";
    now_ += kSecond;
    EXPECT_FALSE(delivered("b"));
    EXPECT_EQ(ask("a"), May::go);
    EXPECT_EQ(refused("a"), Refusal::counts_alone);
    EXPECT_EQ(ask("a"), May::wait_or_fail);
    EXPECT_EQ(destinations_.why("a").code, "NO_LEADER");
    now_ += kSecond;
    EXPECT_FALSE(delivered("b"));
    EXPECT_EQ(ask("a"), May::go);
    EXPECT_EQ(refused("a"), Refusal::counts);
    now_ += kSecond;
    EXPECT_EQ(ask("a"), May::go);
    EXPECT_EQ(refused("a"), Refusal::waits) << "now nothing is delivered elsewhere";
    EXPECT_EQ(ask("a"), May::wait);
}

TEST_F(DestinationsTest, IfOthersReachTheSameTopicOnlyTheEventIsCounted) {
    EXPECT_FALSE(delivered("a", 2 * kSecond));
    EXPECT_EQ(refused("a", 3 * kSecond), Refusal::counts) << "sent before the one that was delivered";
    EXPECT_TRUE(destinations_.all_open());
    EXPECT_EQ(refused("a", 3 * kSecond, kRateLimited), Refusal::waits) << "no part of it is away";
    EXPECT_TRUE(delivered("a", 2 * kSecond));
    EXPECT_EQ(refused("a", kSecond), Refusal::waits) << "sent after it: now all of the topic may be away";
    EXPECT_TRUE(delivered("a"));
    const Outcome why{.kind = OutcomeKind::retryable};
    EXPECT_EQ(destinations_.refused("a", now_ - kSecond, now_ + kSecond, now_ + kSecond, kSecond, why), Refusal::counts)
        << "it was refused before as well";
    EXPECT_EQ(refused("a"), Refusal::counts);
    now_ += kSecond;
    EXPECT_EQ(refused("a"), Refusal::waits);
    now_ += kSecond;
    EXPECT_EQ(ask("a"), May::go);
    EXPECT_EQ(ask("a"), May::wait);
    EXPECT_EQ(refused("a", 3 * kSecond), Refusal::counts);
    EXPECT_EQ(ask("a"), May::go) << "that one's end need not be waited for";
}

TEST_F(DestinationsTest, TheNumberOfTopicsIsLimited) {
    for (std::size_t i = 0; i <= Destinations::kMostPaused; ++i) {
        EXPECT_EQ(refused(std::to_string(i)), Refusal::waits);
        now_ += std::chrono::microseconds(1);
    }
    EXPECT_EQ(ask("0"), May::go);
    EXPECT_EQ(refused("1000"), Refusal::waits) << "that one has its place";
    EXPECT_EQ(ask("1"), May::wait);
    for (std::size_t i = 0; i < Destinations::kMostDelivered; ++i) (void)delivered("topic" + std::to_string(i));
    (void)delivered("topic0");
    EXPECT_EQ(refused("topic1"), Refusal::counts) << "not forgotten";
    (void)delivered("topic" + std::to_string(Destinations::kMostDelivered));
    EXPECT_EQ(refused("topic0"), Refusal::waits) << "forgotten";
    EXPECT_EQ(refused("topic" + std::to_string(Destinations::kMostDelivered)), Refusal::counts);
}

}  // namespace
}  // namespace deliverd::pipeline
