#include "deadletter/kafka/window.h"

#include <gtest/gtest.h>

#include <future>

namespace deliverd::deadletter {
namespace {

using namespace std::chrono_literals;

TEST(Window, BoundsRecordsAndBytes) {
    Window window(2, 100);
    EXPECT_TRUE(window.enter(60, 0s));
    EXPECT_FALSE(window.enter(41, 0s));
    EXPECT_TRUE(window.enter(40, 0s));
    EXPECT_FALSE(window.enter(0, 0s));
    window.leave(60);
    EXPECT_TRUE(window.enter(60, 0s));
}

TEST(Window, WhatIsLargerThanAllHasItAlone) {
    Window window(2, 100);
    EXPECT_TRUE(window.enter(1, 0s));
    EXPECT_FALSE(window.enter(1000, 0s));
    window.leave(1);
    EXPECT_TRUE(window.enter(1000, 0s));
    EXPECT_FALSE(window.enter(1, 0s));
    window.leave(1000);
    EXPECT_TRUE(window.enter(1, 0s));
}

TEST(Window, WhoWaitsIsLetInOrToldToStop) {
    Window window(1, 100);
    ASSERT_TRUE(window.enter(1, 0s));
    auto waiting = std::async(std::launch::async, [&] { return window.enter(1, 60s); });
    window.leave(1);
    EXPECT_TRUE(waiting.get());
    auto stopped = std::async(std::launch::async, [&] { return window.enter(1, 60s); });
    window.stop();
    EXPECT_FALSE(stopped.get());
    window.leave(1);
    EXPECT_FALSE(window.enter(1, 0s));
}

}  // namespace
}  // namespace deliverd::deadletter
