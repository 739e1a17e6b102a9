#include "relay/destinations.h"

#include <gtest/gtest.h>

namespace deliverd::relay {
namespace {

using May = Destinations::May;

constexpr Duration kSecond = std::chrono::seconds(1);

class DestinationsTest : public ::testing::Test {
protected:
    bool refused(std::string_view topic) {
        return destinations_.refused(topic, now_, kSecond, {.kind = OutcomeKind::retryable, .code = "NO_LEADER"});
    }
    May ask(std::string_view topic) { return destinations_.ask(topic, now_); }

    Destinations destinations_;
    Instant now_ = Instant(std::chrono::hours(1));
};

TEST_F(DestinationsTest, OneThatTakesNothingIsTriedOnceAPause) {
    EXPECT_EQ(ask("a"), May::go);
    EXPECT_FALSE(refused("a"));
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

TEST_F(DestinationsTest, ItIsAloneOnceSomethingThatWasSentLaterWasDeliveredElsewhere) {
    EXPECT_FALSE(refused("a"));
    EXPECT_FALSE(destinations_.attempted("b", now_ - kSecond, true)) << "sent before: the receiver may be gone since";
    EXPECT_FALSE(destinations_.attempted("b", now_, false)) << "not delivered";
    EXPECT_FALSE(refused("a"));
    EXPECT_EQ(ask("a"), May::wait);
    EXPECT_TRUE(destinations_.attempted("b", now_, true));
    EXPECT_EQ(ask("a"), May::fail);
    EXPECT_EQ(destinations_.why("a").code, "NO_LEADER");
    EXPECT_FALSE(destinations_.attempted("b", now_, true)) << "known";
    EXPECT_TRUE(refused("a"));
    now_ += kSecond;
    EXPECT_EQ(ask("a"), May::go);
    EXPECT_EQ(ask("a"), May::fail);
}

TEST_F(DestinationsTest, OnlySoManyAreRemembered) {
    for (std::size_t i = 0; i <= Destinations::kMostPaused; ++i) {
        EXPECT_FALSE(refused(std::to_string(i)));
        now_ += std::chrono::microseconds(1);
    }
    EXPECT_EQ(ask("0"), May::go);
    EXPECT_EQ(ask("1"), May::wait);
    EXPECT_TRUE(destinations_.attempted("other", now_, true));
    EXPECT_EQ(ask("1"), May::fail);
}

}  // namespace
}  // namespace deliverd::relay
