#include "lane/poll_pacer.h"

#include <gtest/gtest.h>

#include "pipeline/pacing.h"

namespace deliverd::lane {
namespace {

using namespace std::chrono_literals;

const store::Cursor kLast{"due", 42};

class Pacer : public ::testing::Test {
protected:
    /// One look of `cost` at the moment the pacer asks for it (or now); answers whether it was a full one.
    bool look(std::size_t rows, std::size_t limit, Duration cost) {
        now = std::max(now, pacer.next_look());
        const bool full = !pacer.position(now).has_value();
        const Instant began = now;
        now += cost;
        pacer.looked(began, now, full, rows, limit, rows > 0 ? std::optional(kLast) : std::nullopt);
        return full;
    }

    PollPacer pacer{2ms, 500ms};
    SeededRandom random{1};
    Instant now{1h};
};

TEST_F(Pacer, LooksAgainAtOnceAfterAFullBatch) {
    look(10, 10, 1ms);
    EXPECT_LE(pacer.next_look(), now);
}

TEST_F(Pacer, TheWaitGrowsToTheIdlePollWhileNothingComes) {
    Duration last{};
    for (int i = 0; i < 20; ++i) {
        look(0, 10, 0ms);
        const Duration wait = pacer.next_look() - now;
        EXPECT_GE(wait, last);
        EXPECT_LE(wait, 500ms);
        last = wait;
    }
    EXPECT_EQ(last, 500ms);
    look(1, 10, 0ms);
    EXPECT_EQ(pacer.next_look() - now, 2ms);
}

TEST_F(Pacer, StartsBehindTheLastRowWhileFullLooksAreExpensive) {
    EXPECT_TRUE(look(10, 10, 40ms));
    EXPECT_FALSE(look(10, 10, 1ms));
    ASSERT_TRUE(pacer.position(now).has_value());
    EXPECT_EQ(pacer.position(now)->id, 42);
}

TEST_F(Pacer, LooksFromTheBeginningAtLeastOnceASecond) {
    look(10, 10, 200ms);  // so dear that its share alone would allow one in four seconds
    int full = 0;
    const Instant until = now + 12s;
    while (now < until) full += look(10, 10, pacer.position(now) ? 10ms : 200ms) ? 1 : 0;
    EXPECT_EQ(full, 10);  // one every 1.2 s: a second between, and its own 200 ms
}

TEST_F(Pacer, FullLooksTakeASmallShareOfTheTime) {
    look(10, 10, 20ms);
    Duration spent{};
    const Instant from = now;
    while (now - from < 60s) {
        const bool full = !pacer.position(now).has_value();
        const Duration cost = full ? 20ms : 1ms;
        look(10, 10, cost);
        if (full) spent += cost;
    }
    EXPECT_LE(to_seconds(spent) / to_seconds(now - from), 1.1 / PollPacer::kFullLookShare);
}

TEST_F(Pacer, AfterAFullLookThatTimedOutOtherLooksComeFirst) {
    look(10, 10, 40ms);
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
        longest = std::max(longest, pacer.next_look() - now);
        EXPECT_GT(pacer.next_look(), now);
    }
    EXPECT_LE(longest, pipeline::kLongestLookRetry);
    EXPECT_GE(longest, pipeline::kLongestLookRetry / 2);
    look(10, 10, 0ms);
    EXPECT_LE(pacer.next_look(), now);
}

}  // namespace
}  // namespace deliverd::lane
