#include "daemon/periodic.h"

#include <gtest/gtest.h>

namespace deliverd::daemon {
namespace {

constexpr Duration kTurnPatience = std::chrono::seconds(20);
constexpr Duration kHour = std::chrono::hours(1);
constexpr Duration kMoment = std::chrono::milliseconds(1);

/// Counts turns.
class Turns {
public:
    Duration turn(Duration pause) {
        const MutexLock lock(mutex_);
        ++turns_;
        changed_.notify_all();
        return pause;
    }
    bool wait_for(int turns, Duration patience = kTurnPatience) {
        const MutexLock lock(mutex_);
        return changed_.wait_for(mutex_, patience, [&]() REQUIRES(mutex_) { return turns_ >= turns; });
    }

private:
    Mutex mutex_;
    Condition changed_;
    int turns_ GUARDED_BY(mutex_) = 0;
};

TEST(Periodic, TakesTurnsByItself) {
    Turns turns;
    const Periodic periodic([&turns] { return turns.turn(kMoment); });
    EXPECT_TRUE(turns.wait_for(3));
}

TEST(Periodic, IsHurried) {
    Turns turns;
    Periodic periodic([&turns] { return turns.turn(kHour); });
    ASSERT_TRUE(turns.wait_for(1));
    periodic.hurry();
    EXPECT_TRUE(turns.wait_for(2));
}

TEST(Periodic, KeepsTheShortestPause) {
    Turns turns;
    Periodic periodic([&turns] { return turns.turn(kHour); }, kHour);
    ASSERT_TRUE(turns.wait_for(1));
    periodic.hurry();
    EXPECT_FALSE(turns.wait_for(2, std::chrono::milliseconds(50)));
}

}  // namespace
}  // namespace deliverd::daemon
