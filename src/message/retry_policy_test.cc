#include "message/retry_policy.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace deliverd {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Draws `unit` every time: 0 is the lowest jitter, almost 1 the highest.
class Fixed final : public Random {
public:
    explicit Fixed(std::uint64_t bits) : bits_(bits) {}
    std::uint64_t next() override { return bits_; }

private:
    std::uint64_t bits_;
};

/// The seconds a wait may take according to the specification's text, worked out apart from the code.
struct Bounds {
    double low;
    double high;
};

void expect_within(const RetryPolicy& policy, std::int32_t failures, Bounds bounds) {
    constexpr double kRounding = 1e-6;
    EXPECT_NEAR(to_seconds(policy.wait_at(failures, -1, -1)), bounds.low, kRounding) << failures;
    EXPECT_NEAR(to_seconds(policy.wait_at(failures, 1, 1)), bounds.high, kRounding) << failures;
    SeededRandom random(static_cast<std::uint64_t>(failures));
    for (int i = 0; i < 1'000; ++i) {
        const double wait = to_seconds(policy.wait_after(failures, random));
        EXPECT_GE(wait, bounds.low - kRounding) << failures;
        EXPECT_LE(wait, bounds.high + kRounding) << failures;
    }
}

TEST(RetryPolicy, OrdersWaitTwoTo256SecondsAndDieAtTheNinthFailure) {
    const RetryPolicy policy = RetryPolicy::orders();
    const std::vector<double> middle = {2, 4, 8, 16, 32, 64, 128, 256};
    for (std::size_t i = 0; i < middle.size(); ++i) {
        expect_within(policy, static_cast<std::int32_t>(i + 1), {middle[i] * 0.9, middle[i] * 1.1});
    }
    EXPECT_FALSE(policy.gives_up_at(8));
    EXPECT_TRUE(policy.gives_up_at(9));
    EXPECT_TRUE(RetryPolicy::orders(0).gives_up_at(1));
    expect_within(RetryPolicy::orders(20), 9, {256 * 0.9, 256 * 1.1});
}

TEST(RetryPolicy, EventsWaitUpToFiveMinutesAndDieAtTheTenthFailure) {
    const RetryPolicy policy = RetryPolicy::events();
    const std::vector<double> middle = {1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300};
    for (std::size_t i = 0; i < middle.size(); ++i) {
        expect_within(policy, static_cast<std::int32_t>(i + 1), {middle[i] * 0.8, middle[i] * 1.2});
    }
    EXPECT_FALSE(policy.gives_up_at(9));
    EXPECT_TRUE(policy.gives_up_at(10));
}

// The table of the lease protocol's source document.
TEST(RetryPolicy, LeasesFollowTheirTableInWholeSeconds) {
    const RetryPolicy policy = RetryPolicy::leases();
    expect_within(policy, 1, {84, 156});
    expect_within(policy, 2, {168, 312});
    expect_within(policy, 3, {336, 624});
    expect_within(policy, 4, {672, 1248});
    expect_within(policy, 5, {1344, 2496});
    for (const std::int32_t failures : {6, 7, 50}) expect_within(policy, failures, {2520, 4680});
    SeededRandom random(3);
    for (std::int32_t failures = 1; failures < 200; ++failures) {
        const Duration wait = policy.wait_after(failures % 9 + 1, random);
        EXPECT_EQ(wait % seconds(1), Duration::zero());
        EXPECT_GE(wait, seconds(1));
    }
    EXPECT_FALSE(policy.gives_up_at(4));
    EXPECT_TRUE(policy.gives_up_at(5));
}

TEST(RetryPolicy, LeasesNeverWaitLessThanASecond) {
    RetryPolicy policy = RetryPolicy::leases();
    policy.base_seconds = 0.1;
    Fixed lowest(0);
    EXPECT_EQ(policy.wait_after(1, lowest), seconds(1));
}

TEST(RetryPolicy, SpoolAddsHalfAMinuteEitherWayBeforeItsCap) {
    const RetryPolicy policy = RetryPolicy::spool();
    const std::vector<double> middle = {60, 120, 240, 480, 960, 1920};
    for (std::size_t i = 0; i < middle.size(); ++i) {
        expect_within(policy, static_cast<std::int32_t>(i + 1), {middle[i] - 30, middle[i] + 30});
    }
    expect_within(policy, 7, {3600, 3600});
    EXPECT_FALSE(policy.gives_up_at(4));
    EXPECT_TRUE(policy.gives_up_at(5));
}

TEST(RetryPolicy, JitterReachesBothEnds) {
    const RetryPolicy policy = RetryPolicy::orders();
    Fixed lowest(0);
    Fixed highest(~std::uint64_t{0});
    EXPECT_EQ(policy.wait_after(1, lowest), milliseconds(1800));
    EXPECT_LT(policy.wait_at(1, 1, 1) - policy.wait_after(1, highest), milliseconds(1));
}

TEST(RetryPolicy, AbsoluteJitterReachesBothEnds) {
    RetryPolicy policy = RetryPolicy::spool();
    Fixed lowest(0);
    Fixed highest(~std::uint64_t{0});
    EXPECT_EQ(policy.wait_after(1, lowest), seconds(30));
    EXPECT_LT(seconds(90) - policy.wait_after(1, highest), milliseconds(1));
    policy.jitter_seconds = 1;
    EXPECT_EQ(policy.wait_after(1, lowest), seconds(59));
    policy.jitter_seconds = 0;
    policy.jitter = 1;
    EXPECT_EQ(policy.wait_after(1, lowest), seconds(0));
}

TEST(RetryPolicy, NoneWaitsLongerThanAYearAndABaseOfZeroNotAtAll) {
    RetryPolicy policy;
    policy.base_seconds = 1e300;
    for (const double cap : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
        policy.cap_seconds = cap;
        EXPECT_EQ(policy.wait_at(1, 1, 1), std::chrono::hours(366 * 24)) << cap;
    }
    policy.base_seconds = 0;
    EXPECT_EQ(policy.wait_at(5'000, 1, 1), Duration::zero()) << "though the power of the factor is infinite";
}

TEST(RetryPolicy, HugeAndSenselessCountsStayInBounds) {
    for (const RetryPolicy& policy :
         {RetryPolicy::orders(), RetryPolicy::events(), RetryPolicy::leases(), RetryPolicy::spool()}) {
        SeededRandom random(1);
        const double most = policy.cap_seconds * (1 + policy.jitter);
        for (const std::int32_t failures : {1'000, 100'000, std::numeric_limits<std::int32_t>::max()}) {
            const Duration wait = policy.wait_after(failures, random);
            EXPECT_GE(wait, policy.wait_at(failures, -1, -1));
            EXPECT_LE(to_seconds(wait), most + 1e-6);
            EXPECT_TRUE(policy.gives_up_at(failures));
        }
        for (const std::int32_t failures : {0, -1, std::numeric_limits<std::int32_t>::min()}) {
            EXPECT_EQ(policy.wait_at(failures, 1, 1), policy.wait_at(1, 1, 1));
            EXPECT_FALSE(policy.gives_up_at(failures));
        }
    }
}

RC_GTEST_PROP(RetryPolicyProperty, EveryWaitOfEveryPolicyIsBounded, (std::uint64_t seed, std::int32_t failures)) {
    const double infinity = std::numeric_limits<double>::infinity();
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const auto number = rc::gen::element(0.0, 0.001, 0.3, 1.0, 2.0, 60.0, 3600.0, 1e300, -1.0, infinity, nan);
    RetryPolicy policy;
    policy.base_seconds = *number;
    policy.factor = *number;
    policy.first_exponent = *rc::gen::element(0, 1, std::numeric_limits<std::int32_t>::max());
    policy.cap_seconds = *number;
    policy.jitter = *rc::gen::element(0.0, 0.1, 0.3, 1.0, 5.0, -0.2, nan);
    policy.jitter_seconds = *rc::gen::element(0.0, 30.0, -30.0, infinity);
    policy.whole_seconds = *rc::gen::arbitrary<bool>();
    policy.min_seconds = *rc::gen::element(0.0, 1.0, -1.0, nan);
    SeededRandom random(seed);
    const Duration wait = policy.wait_after(failures, random);
    RC_ASSERT(wait >= Duration::zero());
    RC_ASSERT(wait <= std::chrono::hours(366 * 24));
    RC_ASSERT(wait >= policy.wait_at(failures, -1, -1));
    RC_ASSERT(wait <= policy.wait_at(failures, 1, 1));
}

RC_GTEST_PROP(RetryPolicyProperty, WaitsGrowUntilTheCap, ()) {
    const RetryPolicy policy = *rc::gen::element(0, 1, 2, 3) == 0 ? RetryPolicy::orders() : RetryPolicy::leases();
    const auto failures = *rc::gen::inRange<std::int32_t>(1, 1'000'000);
    RC_ASSERT(policy.wait_at(failures, 1, 1) <= policy.wait_at(failures + 1, 1, 1));
    RC_ASSERT(policy.wait_at(failures, -1, -1) <= policy.wait_at(failures + 1, -1, -1));
}

}  // namespace
}  // namespace deliverd
