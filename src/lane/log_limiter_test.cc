#include "lane/log_limiter.h"

#include <gtest/gtest.h>

namespace deliverd::lane {
namespace {

using namespace std::chrono_literals;

TEST(LogLimiter, LetsSomeThroughASecondAndCountsTheRest) {
    LogLimiter limiter;
    const Instant start{1h};
    for (std::uint32_t i = 0; i < LogLimiter::kLinesASecond; ++i) EXPECT_EQ(limiter.admit(start), 0U);
    EXPECT_EQ(limiter.admit(start + 10ms), std::nullopt);
    EXPECT_EQ(limiter.admit(start + 999ms), std::nullopt);
    EXPECT_EQ(limiter.admit(start + 1s), 2U);
    EXPECT_EQ(limiter.admit(start + 1s), 0U);
}

}  // namespace
}  // namespace deliverd::lane
