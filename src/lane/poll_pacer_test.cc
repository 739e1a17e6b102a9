#include "lane/poll_pacer.h"

#include <gtest/gtest.h>

#include "pipeline/pacing.h"

namespace deliverd::lane {
namespace {

using namespace std::chrono_literals;

const store::Cursor kLast{"due", 42};

class Pacer : public ::testing::Test {
protected:
    /// One poll of `cost` at the moment the pacer asks for it (or now); answers whether it was a full one.
    bool poll(std::size_t rows, std::size_t limit, Duration cost) {
        now = std::max(now, pacer.next_poll());
        const bool full = !pacer.position(now).has_value();
        const Instant began = now;
        now += cost;
        pacer.polled(began, now, full, rows, limit, rows > 0 ? std::optional(kLast) : std::nullopt);
        return full;
    }

    PollPacer pacer{2ms, 500ms};
    SeededRandom random{1};
    Instant now{1h};
};

TEST_F(Pacer, PollsAgainAtOnceAfterAFullBatch) {
    poll(10, 10, 1ms);
    EXPECT_LE(pacer.next_poll(), now);
}

TEST_F(Pacer, TheWaitGrowsToTheIdlePollWhileNothingComes) {
    Duration last{};
    for (int i = 0; i < 20; ++i) {
        poll(0, 10, 0ms);
        const Duration wait = pacer.next_poll() - now;
        EXPECT_GE(wait, last);
        EXPECT_LE(wait, 500ms);
        last = wait;
    }
    EXPECT_EQ(last, 500ms);
    poll(1, 10, 0ms);
    EXPECT_EQ(pacer.next_poll() - now, 2ms);
}

TEST_F(Pacer, StartsBehindTheLastRowWhileFullPollsAreExpensive) {
    EXPECT_TRUE(poll(10, 10, 40ms));
    EXPECT_FALSE(poll(10, 10, 1ms));
    ASSERT_TRUE(pacer.position(now).has_value());
    EXPECT_EQ(pacer.position(now)->id, 42);
}

TEST_F(Pacer, PollsFromTheBeginningAtLeastOnceASecond) {
    poll(10, 10, 200ms);  // so dear that its share alone would allow one in four seconds
    int full = 0;
    const Instant until = now + 12s;
    while (now < until) full += poll(10, 10, pacer.position(now) ? 10ms : 200ms) ? 1 : 0;
    EXPECT_EQ(full, 10);  // one every 1.2 s: a second between, and its own 200 ms
}

TEST_F(Pacer, FullPollsTakeASmallShareOfTheTime) {
    poll(10, 10, 20ms);
    Duration spent{};
    const Instant from = now;
    while (now - from < 60s) {
        const bool full = !pacer.position(now).has_value();
        const Duration cost = full ? 20ms : 1ms;
        poll(10, 10, cost);
        if (full) spent += cost;
    }
    EXPECT_LE(to_seconds(spent) / to_seconds(now - from), 1.1 / PollPacer::kFullPollShare);
}

TEST_F(Pacer, AfterAFullPollThatTimedOutOtherPollsComeFirst) {
    poll(10, 10, 40ms);
    now += 1s;
    ASSERT_FALSE(pacer.position(now).has_value());
    pacer.failed(now, now + 30s, true, random);
    now += 30s;
    EXPECT_TRUE(pacer.position(now).has_value());
    now += 1s;
    EXPECT_FALSE(pacer.position(now).has_value());
}

TEST_F(Pacer, BacksOffAfterErrorsAndRecoversAtOnce) {
    Duration longest{};
    for (int i = 0; i < 20; ++i) {
        pacer.failed(now, now, true, random);
        longest = std::max(longest, pacer.next_poll() - now);
        EXPECT_GT(pacer.next_poll(), now);
    }
    EXPECT_LE(longest, pipeline::kLongestPollRetry);
    EXPECT_GE(longest, pipeline::kLongestPollRetry / 2);
    poll(10, 10, 0ms);
    EXPECT_LE(pacer.next_poll(), now);
}

}  // namespace
}  // namespace deliverd::lane
