#include "sink/breaker.h"

#include <gtest/gtest.h>

namespace deliverd::sink {
namespace {

using namespace std::chrono_literals;
using Permit = Breaker::Permit;
using Change = Breaker::Change;

constexpr Instant kStart{1h};

Breaker opened(std::int32_t failures = 3, Duration longest = 5min) {
    Breaker breaker({failures, 10s, longest});
    for (int i = 1; i < failures; ++i) EXPECT_EQ(breaker.ended(Permit::normal, false, kStart), Change::none);
    EXPECT_EQ(breaker.ended(Permit::normal, false, kStart), Change::opened);
    return breaker;
}

TEST(Breaker, IsOffWithoutFailures) {
    Breaker breaker({0, 10s, 5min});
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(breaker.ended(Permit::normal, false, kStart), Change::none);
    EXPECT_EQ(breaker.begin(kStart), Permit::normal);
}

TEST(Breaker, OpensAfterFailuresInARowOnly) {
    Breaker breaker({3, 10s, 5min});
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(breaker.ended(Permit::normal, false, kStart), Change::none);
        EXPECT_EQ(breaker.ended(Permit::normal, false, kStart), Change::none);
        EXPECT_EQ(breaker.ended(Permit::normal, true, kStart), Change::none);
        EXPECT_EQ(breaker.begin(kStart), Permit::normal);
        EXPECT_EQ(breaker.wait(kStart), 0s);
    }
}

TEST(Breaker, LetsNothingThroughUntilThePauseIsOver) {
    auto breaker = opened();
    EXPECT_EQ(breaker.begin(kStart), std::nullopt);
    EXPECT_EQ(breaker.wait(kStart), 10s);
    EXPECT_EQ(breaker.begin(kStart + 9999ms), std::nullopt);
    EXPECT_EQ(breaker.wait(kStart + 9999ms), 1ms);
    EXPECT_EQ(breaker.begin(kStart + 10s), Permit::probe);
}

TEST(Breaker, LetsOneProbeThroughAtATime) {
    auto breaker = opened();
    ASSERT_EQ(breaker.begin(kStart + 10s), Permit::probe);
    EXPECT_EQ(breaker.begin(kStart + 10s), std::nullopt);
    EXPECT_EQ(breaker.begin(kStart + 1h), std::nullopt);
    EXPECT_EQ(breaker.wait(kStart + 1h), Breaker::kProbeWait);
    breaker.cancelled(Permit::probe);  // it was not sent: the next may
    EXPECT_EQ(breaker.wait(kStart + 1h), 0s);
    EXPECT_EQ(breaker.begin(kStart + 1h), Permit::probe);
    EXPECT_EQ(breaker.begin(kStart + 1h), std::nullopt);
}

TEST(Breaker, ClosesWhenTheProbeIsGoodAndCountsAnew) {
    auto breaker = opened();
    ASSERT_EQ(breaker.begin(kStart + 10s), Permit::probe);
    EXPECT_EQ(breaker.ended(Permit::probe, true, kStart + 11s), Change::closed);
    EXPECT_EQ(breaker.begin(kStart + 11s), Permit::normal);
    EXPECT_EQ(breaker.ended(Permit::normal, false, kStart + 11s), Change::none);
    EXPECT_EQ(breaker.ended(Permit::normal, false, kStart + 11s), Change::none);
    EXPECT_EQ(breaker.ended(Permit::normal, false, kStart + 11s), Change::opened);
    EXPECT_EQ(breaker.wait(kStart + 11s), 10s);
}

TEST(Breaker, DoublesThePauseAfterABadProbeUpToTheLongest) {
    auto breaker = opened(3, 35s);
    auto now = kStart;
    for (const auto pause : {10s, 20s, 35s, 35s}) {
        EXPECT_EQ(breaker.wait(now), pause);
        EXPECT_EQ(breaker.pause(), pause);
        now += pause;
        ASSERT_EQ(breaker.begin(now), Permit::probe);
        EXPECT_EQ(breaker.ended(Permit::probe, false, now), Change::none);
    }
    now += 35s;
    ASSERT_EQ(breaker.begin(now), Permit::probe);
    EXPECT_EQ(breaker.ended(Permit::probe, true, now), Change::closed);
    EXPECT_EQ(breaker.pause(), 10s);  // forgotten once it worked
}

TEST(Breaker, WhatBeganBeforeChangesNothingWhileOpen) {
    auto breaker = opened();
    EXPECT_EQ(breaker.ended(Permit::normal, true, kStart + 1s), Change::none);
    EXPECT_EQ(breaker.ended(Permit::normal, false, kStart + 2s), Change::none);
    EXPECT_EQ(breaker.wait(kStart + 2s), 8s);
    ASSERT_EQ(breaker.begin(kStart + 10s), Permit::probe);
    EXPECT_EQ(breaker.ended(Permit::normal, true, kStart + 10s), Change::none);
    EXPECT_EQ(breaker.begin(kStart + 10s), std::nullopt);  // the probe still decides
}

}  // namespace
}  // namespace deliverd::sink
