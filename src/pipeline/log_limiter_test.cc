#include "pipeline/log_limiter.h"

#include <gtest/gtest.h>

namespace deliverd::pipeline {
namespace {

using namespace std::chrono_literals;

TEST(LogLimiter, AdmitsALimitedNumberPerSecondAndCountsTheRest) {
    LogLimiter limiter(10, 1s);
    const Instant start{1h};
    for (int i = 0; i < 10; ++i) EXPECT_EQ(limiter.admit(start), 0U);
    EXPECT_EQ(limiter.admit(start + 10ms), std::nullopt);
    EXPECT_EQ(limiter.admit(start + 999ms), std::nullopt);
    EXPECT_EQ(limiter.admit(start + 1s), 2U);
    EXPECT_EQ(limiter.admit(start + 1s), 0U);
}

TEST(LogLimiter, AdmitsNewTroubleAtOnceAndLastingTroubleOncePerMinute) {
    LogLimiter limiter(1, 1min);
    const Instant start{};  // also where a clock begins
    EXPECT_EQ(limiter.admit(start, "down"), 0U);
    EXPECT_EQ(limiter.admit(start + 1s, "down"), std::nullopt);
    EXPECT_EQ(limiter.admit(start + 59s, "down"), std::nullopt);
    EXPECT_EQ(limiter.admit(start + 60s, "down"), 2U);
    EXPECT_EQ(limiter.admit(start + 61s, "down"), std::nullopt);
    EXPECT_EQ(limiter.admit(start + 62s, "full"), 1U);
    EXPECT_EQ(limiter.admit(start + 63s, "full"), std::nullopt);
    EXPECT_EQ(limiter.admit(start + 64s, "down"), 1U);
}

}  // namespace
}  // namespace deliverd::pipeline
