#include "pipeline/throttle.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

namespace deliverd::pipeline {
namespace {

using namespace std::chrono_literals;

const Instant kThrottleStart = Instant(1h);

/// Sends as many as `wanted` if it may; answers how many went.
std::size_t send(Throttle& throttle, Instant now, std::size_t wanted) {
    const std::size_t messages = throttle.permits(now, wanted);
    throttle.on_sent(now, messages);
    return messages;
}

/// Sends whenever it may from `from` until `until`, each answered at once by success; answers when.
std::vector<Instant> send_all(Throttle& throttle, Instant from, Instant until) {
    std::vector<Instant> sends;
    for (Instant now = throttle.next_permit(from); now < until; now = throttle.next_permit(now)) {
        EXPECT_EQ(send(throttle, now, 1), 1U);
        sends.push_back(now);
        if (!throttle.rate()) break;
        throttle.on_success(now);
    }
    return sends;
}

TEST(Throttle, WithoutComplaintsThereIsNoLimit) {
    Throttle throttle(1h);
    EXPECT_EQ(throttle.permits(kThrottleStart, 1000), 1000U);
    EXPECT_EQ(throttle.next_permit(kThrottleStart), kThrottleStart);
    throttle.on_sent(kThrottleStart, 1000);
    throttle.on_success(kThrottleStart);
    EXPECT_EQ(throttle.permits(kThrottleStart, 1000), 1000U);
    EXPECT_FALSE(throttle.rate());
}

TEST(Throttle, TheFirstComplaintHalvesWhatWasSentInTheLastSecond) {
    Throttle throttle(1h);
    throttle.on_sent(kThrottleStart, 500);  // longer ago than a second
    throttle.on_sent(kThrottleStart + 5s + 300ms, 30);
    throttle.on_sent(kThrottleStart + 5s + 500ms, 10);
    throttle.on_rate_limited(kThrottleStart + 5s + 300ms, kThrottleStart + 5s + 600ms, 3s);
    EXPECT_EQ(throttle.rate(), 20.0);
}

TEST(Throttle, SendsCountForASecondInTenths) {
    Throttle throttle(1h);
    throttle.on_sent(kThrottleStart, 100);
    throttle.on_sent(kThrottleStart + 100ms, 30);
    throttle.on_sent(kThrottleStart + 199ms, 20);
    throttle.on_rate_limited(kThrottleStart, kThrottleStart + 1s, 1s);
    EXPECT_EQ(throttle.rate(), 25.0) << "the first hundred were sent a second ago";
}

TEST(Throttle, WhereNothingWasSentNothingIsWaitedFor) {
    Throttle throttle(1h);
    send(throttle, kThrottleStart, 8);
    throttle.on_rate_limited(kThrottleStart, kThrottleStart, 0s);
    throttle.on_sent(kThrottleStart, 0);
    EXPECT_EQ(throttle.next_permit(kThrottleStart), kThrottleStart);
}

TEST(Throttle, RetryAfterPausesEverything) {
    Throttle throttle(1h);
    send(throttle, kThrottleStart, 8);
    throttle.on_rate_limited(kThrottleStart, kThrottleStart + 1s, 3s);
    EXPECT_EQ(throttle.permits(kThrottleStart + 1s, 8), 0U);
    EXPECT_EQ(throttle.permits(kThrottleStart + 4s - 1ns, 8), 0U);
    EXPECT_EQ(throttle.next_permit(kThrottleStart + 1s), kThrottleStart + 4s);
    EXPECT_EQ(throttle.permits(kThrottleStart + 4s, 8), 1U);
}

TEST(Throttle, APauseIsCappedAndHasADefault) {
    Throttle capped(10s);
    capped.on_rate_limited(kThrottleStart, kThrottleStart, 1h);
    EXPECT_EQ(capped.next_permit(kThrottleStart), kThrottleStart + 10s);
    Throttle unnamed(10s);
    unnamed.on_rate_limited(kThrottleStart, kThrottleStart, std::nullopt);
    EXPECT_EQ(unnamed.next_permit(kThrottleStart), kThrottleStart + Throttle::kPauseWithoutRetryAfter);
    Throttle at_once(10s);
    at_once.on_rate_limited(kThrottleStart, kThrottleStart, 0s);
    EXPECT_EQ(at_once.next_permit(kThrottleStart), kThrottleStart);
}

TEST(Throttle, ALaterComplaintNeverShortensAPause) {
    Throttle throttle(1h);
    throttle.on_rate_limited(kThrottleStart, kThrottleStart, 60s);
    throttle.on_rate_limited(kThrottleStart, kThrottleStart + 1s, 2s);
    throttle.on_rate_limited(kThrottleStart + 1s, kThrottleStart + 2s, std::nullopt);
    EXPECT_EQ(throttle.next_permit(kThrottleStart + 2s), kThrottleStart + 60s);
}

TEST(Throttle, AttemptsThatBeganBeforeADecreaseDoNotChangeTheRate) {
    Throttle throttle(1h);
    send(throttle, kThrottleStart, 64);
    throttle.on_rate_limited(kThrottleStart, kThrottleStart + 100ms, 1s);
    ASSERT_EQ(throttle.rate(), 32.0);
    throttle.on_rate_limited(kThrottleStart, kThrottleStart + 200ms, 2s);  // heard, but for its Retry-After only
    throttle.on_rate_limited(kThrottleStart + 100ms, kThrottleStart + 200ms, std::nullopt);
    throttle.on_success(kThrottleStart);
    throttle.on_success(kThrottleStart + 100ms);
    EXPECT_EQ(throttle.rate(), 32.0);
    EXPECT_EQ(throttle.next_permit(kThrottleStart + 200ms), kThrottleStart + 2s + 200ms);
    throttle.on_rate_limited(kThrottleStart + 3s, kThrottleStart + 4s, 1s);
    EXPECT_EQ(throttle.rate(), 16.0);
}

TEST(Throttle, NeverBelowTheFloor) {
    Throttle throttle(1h);
    for (int i = 1; i < 20; ++i) throttle.on_rate_limited(kThrottleStart + i * 2s, kThrottleStart + i * 2s + 1s, 0s);
    EXPECT_EQ(throttle.rate(), Throttle::kFloorPerSecond);
}

TEST(Throttle, NothingIsCaughtUpAfterAPause) {
    Throttle throttle(1h);
    send(throttle, kThrottleStart, 20);
    throttle.on_rate_limited(kThrottleStart, kThrottleStart, 60s);
    ASSERT_EQ(throttle.rate(), 10.0);
    const Instant resumed = kThrottleStart + 90s;  // half a minute late
    EXPECT_EQ(send(throttle, resumed, 8), 1U);
    EXPECT_EQ(send(throttle, resumed, 8), 0U);
    EXPECT_EQ(send(throttle, resumed + 99ms, 8), 0U);
    EXPECT_EQ(send(throttle, resumed + 101ms, 8), 1U);
}

TEST(Throttle, ASecondOfSuccessesAddsTheStep) {
    Throttle throttle(1h);
    send(throttle, kThrottleStart, 200);
    throttle.on_rate_limited(kThrottleStart, kThrottleStart, 1s);
    ASSERT_EQ(throttle.rate(), 100.0);
    const std::vector<Instant> sends = send_all(throttle, kThrottleStart + 1s, kThrottleStart + 11s);
    const double grown = 100 + 10 * Throttle::kIncreaseShare * 200;
    EXPECT_NEAR(*throttle.rate(), grown, 1);
    EXPECT_NEAR(static_cast<double>(sends.size()), 10 * (100 + grown) / 2, 10);
}

TEST(Throttle, TheStepIsThatOfTheRateAtWhichTheLaneWasFirstLimited) {
    Throttle throttle(1h);
    send(throttle, kThrottleStart, 200);
    throttle.on_rate_limited(kThrottleStart, kThrottleStart, 1s);
    throttle.on_rate_limited(kThrottleStart + 5s, kThrottleStart + 5s, 1s);
    ASSERT_EQ(throttle.rate(), 50.0);
    send_all(throttle, kThrottleStart + 6s, kThrottleStart + 7s);
    EXPECT_NEAR(throttle.rate().value_or(0), 50 + Throttle::kIncreaseShare * 200, 1);
}

TEST(Throttle, TheStepOfASlowLaneIsNotSmallerThanTheLeast) {
    Throttle throttle(1h);
    send(throttle, kThrottleStart, 10);
    throttle.on_rate_limited(kThrottleStart, kThrottleStart, 1s);
    ASSERT_EQ(throttle.rate(), 5.0);
    send_all(throttle, kThrottleStart + 1s, kThrottleStart + 6s);
    EXPECT_NEAR(*throttle.rate(), 5 + 5 * Throttle::kLeastIncreasePerSecond, 1);
}

TEST(Throttle, TheLimitIsLiftedAtTwiceTheRateAtWhichItBegan) {
    Throttle throttle(1h);
    send(throttle, kThrottleStart, 40);
    throttle.on_rate_limited(kThrottleStart, kThrottleStart, 1s);
    ASSERT_EQ(throttle.rate(), 20.0);
    double highest = 0;
    Instant now = kThrottleStart + 1s;
    for (int sends = 0; sends < 10'000 && throttle.rate(); ++sends) {
        highest = *throttle.rate();
        now = throttle.next_permit(now);
        send(throttle, now, 1);
        throttle.on_success(now);
    }
    EXPECT_FALSE(throttle.rate());
    EXPECT_NEAR(highest, Throttle::kLiftFactor * 40, 1);
    EXPECT_EQ(throttle.permits(now, 1000), 1000U);
    throttle.on_rate_limited(kThrottleStart, now, 1s);
    EXPECT_TRUE(throttle.rate()) << "whenever that attempt began";
}

TEST(Throttle, AFewSuccessesDoNotLiftTheLimitOfASlowLane) {
    Throttle throttle(1h);
    send(throttle, kThrottleStart, 1);
    throttle.on_rate_limited(kThrottleStart, kThrottleStart, 1s);
    send_all(throttle, kThrottleStart + 1s, kThrottleStart + 6s);
    ASSERT_TRUE(throttle.rate());
    EXPECT_LT(*throttle.rate(), Throttle::kLeastLiftPerSecond);
}

/// A lane's life: time passes, something is sent if it may be, something is answered.
struct Life {
    void step() {
        now += Duration(*rc::gen::inRange<std::int64_t>(0, 400'000'000));
        if (*rc::gen::inRange(0, 3) == 0) now = throttle.next_permit(now);
        send_some();
        if (!under_way.empty() && *rc::gen::arbitrary<bool>()) answer_one();
        if (throttle.rate()) {
            RC_ASSERT(*throttle.rate() >= Throttle::kFloorPerSecond);
            RC_ASSERT(*throttle.rate() <
                      std::max(Throttle::kLiftFactor * most_in_a_second, Throttle::kLeastLiftPerSecond));
        } else {
            limited_sends.clear();
        }
    }

    void send_some() {
        const auto wanted = static_cast<std::size_t>(*rc::gen::inRange(0, 40));
        const std::size_t messages = throttle.permits(now, wanted);
        RC_ASSERT(messages <= wanted);
        RC_ASSERT(messages == 0 || now >= paused_until);
        if (throttle.rate()) RC_ASSERT(messages <= 1U);
        if (wanted > 0 && throttle.next_permit(now) == now) RC_ASSERT(messages > 0U);
        throttle.on_sent(now, messages);
        for (std::size_t i = 0; i < messages; ++i) under_way.push_back(now);
        if (throttle.rate() && messages > 0) limited_sends.push_back({now, *throttle.rate()});
        most_in_a_second += static_cast<double>(messages);  // at most all of them
    }

    void answer_one() {
        const auto which = *rc::gen::inRange<std::size_t>(0, under_way.size());
        const Instant began = under_way[which];
        under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(which));
        if (*rc::gen::inRange(0, 4) > 0) return throttle.on_success(began);
        const Duration retry_after = std::chrono::milliseconds(*rc::gen::inRange(0, 3000));
        throttle.on_rate_limited(began, now, retry_after);
        paused_until = std::max(paused_until, now + std::min(retry_after, longest_pause));
    }

    /// Of all sends since the limit began: in a window from one to another no more than rate·t + 1.
    void check_windows() const {
        for (std::size_t first = 0; first < limited_sends.size(); ++first) {
            double highest = limited_sends[first].rate;
            for (std::size_t last = first + 1; last < limited_sends.size(); ++last) {
                const double seconds = to_seconds(limited_sends[last].at - limited_sends[first].at);
                RC_ASSERT(static_cast<double>(last - first) <= highest * seconds);
                highest = std::max(highest, limited_sends[last].rate);
            }
        }
    }

    struct LimitedSend {
        Instant at;
        double rate;
    };
    const Duration longest_pause = 2s;
    Throttle throttle{longest_pause};
    Instant now = kThrottleStart;
    Instant paused_until{};
    double most_in_a_second = 0;
    std::vector<Instant> under_way;
    std::vector<LimitedSend> limited_sends;
};

RC_GTEST_PROP(ThrottleProperty, NeverFasterThanItsRateAndNeverDuringAPause, ()) {
    Life life;
    const int steps = *rc::gen::inRange(0, 200);
    for (int i = 0; i < steps; ++i) {
        life.step();
        life.check_windows();
    }
}

}  // namespace
}  // namespace deliverd::pipeline
