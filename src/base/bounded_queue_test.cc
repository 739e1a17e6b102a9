#include "base/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <thread>

namespace deliverd {
namespace {

using std::chrono::steady_clock;

// Long enough that only a hang reaches it.
steady_clock::time_point far_away() {
    return steady_clock::now() + std::chrono::seconds(60);
}
/// Tries until there is room.
void push(BoundedQueue<int>& queue, int value) {
    while (!queue.try_push(value)) std::this_thread::yield();
}

TEST(BoundedQueue, HoldsNoMoreThanItsCapacity) {
    BoundedQueue<int> queue(2);
    int value = 1;
    EXPECT_TRUE(queue.try_push(value));
    value = 2;
    EXPECT_TRUE(queue.try_push(value));
    value = 3;
    EXPECT_FALSE(queue.try_push(value));
    EXPECT_EQ(queue.size(), 2U);
    EXPECT_EQ(queue.capacity(), 2U);
    std::vector<int> out;
    EXPECT_EQ(queue.try_pop(out, 10), 2U);
    EXPECT_EQ(out, (std::vector<int>{1, 2}));
}

TEST(BoundedQueue, APushThatFailsLeavesTheValue) {
    BoundedQueue<std::unique_ptr<int>> queue(1);
    auto first = std::make_unique<int>(1);
    auto second = std::make_unique<int>(2);
    ASSERT_TRUE(queue.try_push(first));
    EXPECT_EQ(first, nullptr);
    EXPECT_FALSE(queue.try_push(second));
    queue.close();
    EXPECT_FALSE(queue.try_push(second));
    ASSERT_NE(second, nullptr);
    EXPECT_EQ(*second, 2);
}

TEST(BoundedQueue, PopTakesAtMostMaxAndAppends) {
    BoundedQueue<int> queue(5);
    for (int i = 0; i < 5; ++i) {
        int value = i;
        ASSERT_TRUE(queue.try_push(value));
    }
    std::vector<int> out = {-1};
    EXPECT_EQ(queue.pop_until(out, 2, far_away()), 2U);
    EXPECT_EQ(queue.try_pop(out, 2), 2U);
    EXPECT_EQ(out, (std::vector<int>{-1, 0, 1, 2, 3}));
    EXPECT_EQ(queue.size(), 1U);
}

TEST(BoundedQueue, DeadlinesEndTheWait) {
    BoundedQueue<int> queue(1);
    std::vector<int> out;
    const auto soon = steady_clock::now() + std::chrono::milliseconds(5);
    EXPECT_EQ(queue.pop_until(out, 1, soon), 0U);
    EXPECT_GE(steady_clock::now(), soon);
}

TEST(BoundedQueue, AfterCloseWhatIsInComesOut) {
    BoundedQueue<int> queue(3);
    int value = 7;
    ASSERT_TRUE(queue.try_push(value));
    queue.close();
    queue.close();
    EXPECT_TRUE(queue.closed());
    EXPECT_FALSE(queue.try_push(value));
    std::vector<int> out;
    EXPECT_EQ(queue.pop_until(out, 5, far_away()), 1U);
    EXPECT_EQ(queue.pop_until(out, 5, far_away()), 0U);  // at once, closed and empty
    EXPECT_EQ(out, (std::vector<int>{7}));
}

TEST(BoundedQueue, CloseWakesWhoWaits) {
    BoundedQueue<int> empty(1);
    std::thread popper([&] {
        std::vector<int> out;
        EXPECT_EQ(empty.pop_until(out, 1, far_away()), 0U);
    });
    empty.close();
    popper.join();
}

TEST(BoundedQueue, APopMakesRoomForWhoWaits) {
    BoundedQueue<int> queue(1);
    int value = 1;
    ASSERT_TRUE(queue.try_push(value));
    std::thread pusher([&] { push(queue, 2); });
    std::vector<int> out;
    while (out.size() < 2) ASSERT_EQ(queue.pop_until(out, 1, far_away()), 1U);
    pusher.join();
    EXPECT_EQ(out, (std::vector<int>{1, 2}));
}

TEST(BoundedQueue, ManyThreadsLoseAndDoubleNothing) {
    constexpr int kProducers = 4;
    constexpr int kConsumers = 4;
    constexpr int kEach = 5'000;
    BoundedQueue<int> queue(16);
    std::vector<std::vector<int>> taken(kConsumers);
    std::atomic<bool> over_capacity = false;
    std::vector<std::thread> producers;
    std::vector<std::thread> consumers;
    for (int c = 0; c < kConsumers; ++c) {
        consumers.emplace_back([&, c] {
            while (queue.pop_until(taken[static_cast<std::size_t>(c)], 7, far_away()) > 0) {
                if (queue.size() > queue.capacity()) over_capacity = true;
            }
        });
    }
    for (int p = 0; p < kProducers; ++p) {
        producers.emplace_back([&, p] {
            for (int i = 0; i < kEach; ++i) push(queue, p * kEach + i);
        });
    }
    for (auto& thread : producers) thread.join();
    queue.close();
    for (auto& thread : consumers) thread.join();

    std::vector<int> all;
    for (const auto& part : taken) {
        // What one producer put in comes out in its order, for whoever takes it.
        std::vector<int> last(kProducers, -1);
        for (const int value : part) {
            EXPECT_GT(value, last[static_cast<std::size_t>(value / kEach)]);
            last[static_cast<std::size_t>(value / kEach)] = value;
        }
        all.insert(all.end(), part.begin(), part.end());
    }
    std::sort(all.begin(), all.end());
    std::vector<int> expected(kProducers * kEach);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
    EXPECT_FALSE(over_capacity);
}

TEST(BoundedQueue, TakesAsManyOfARangeAsFit) {
    BoundedQueue<std::string> queue(3);
    std::vector<std::string> items{"a", "b", "c", "d"};
    EXPECT_EQ(queue.try_push_some(items.begin(), items.begin() + 1), 1U);
    EXPECT_EQ(queue.try_push_some(items.begin() + 1, items.end()), 2U);
    EXPECT_EQ(queue.try_push_some(items.begin() + 3, items.end()), 0U);
    EXPECT_EQ(items[3], "d");
    std::vector<std::string> out;
    EXPECT_EQ(queue.try_pop(out, 10), 3U);
    EXPECT_EQ(out, (std::vector<std::string>{"a", "b", "c"}));
    queue.close();
    EXPECT_EQ(queue.try_push_some(items.begin() + 3, items.end()), 0U);
}

}  // namespace
}  // namespace deliverd
