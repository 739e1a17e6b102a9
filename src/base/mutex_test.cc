#include "base/mutex.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace deliverd {
namespace {

constexpr Duration kLong = std::chrono::seconds(60);

class Box {
public:
    void put(int value) EXCLUDES(mutex_) {
        const MutexLock lock(mutex_);
        value_ = value;
        changed_.notify_all();
    }
    bool wait_for(int value, Duration patience) EXCLUDES(mutex_) {
        const MutexLock lock(mutex_);
        return changed_.wait_for(mutex_, patience, [&]() REQUIRES(mutex_) { return value_ == value; });
    }
    bool wait_until(int value, Instant deadline) EXCLUDES(mutex_) {
        const MutexLock lock(mutex_);
        return changed_.wait_until(mutex_, deadline, [&]() REQUIRES(mutex_) { return value_ == value; });
    }
    void wait_and_throw() EXCLUDES(mutex_) {
        const MutexLock lock(mutex_);
        changed_.wait(mutex_, []() -> bool { throw std::runtime_error("not ready, ever"); });
    }
    bool is_free() EXCLUDES(mutex_) {
        if (!mutex_.try_lock()) return false;
        mutex_.unlock();
        return true;
    }

private:
    Mutex mutex_;
    Condition changed_;
    int value_ GUARDED_BY(mutex_) = 0;
};

TEST(MutexTest, AWaiterSeesWhatAnotherThreadPut) {
    Box box;
    std::thread other([&box] { box.put(7); });
    EXPECT_TRUE(box.wait_for(7, kLong));
    other.join();
    EXPECT_TRUE(box.is_free());
}

TEST(MutexTest, AWaitEndsAtItsDeadline) {
    Box box;
    EXPECT_FALSE(box.wait_until(7, SystemClock().now()));
    EXPECT_FALSE(box.wait_for(7, Duration::zero()));
    EXPECT_TRUE(box.is_free());
}

TEST(MutexTest, AConditionThatThrowsLeavesTheMutexToItsScope) {
    Box box;
    EXPECT_THROW(box.wait_and_throw(), std::runtime_error);
    EXPECT_TRUE(box.is_free());
}

bool is_free(Mutex& mutex) {
    if (!mutex.try_lock()) return false;
    mutex.unlock();
    return true;
}

TEST(MutexTest, ALockCanBeLetGoAndTakenAgain) {
    Mutex mutex;
    const auto seen_by_another = [&mutex] {
        bool free = false;
        std::thread([&] { free = is_free(mutex); }).join();
        return free;
    };
    MutexLock lock(mutex);
    lock.unlock();
    EXPECT_TRUE(seen_by_another());
    lock.lock();
    EXPECT_FALSE(seen_by_another());
}

}  // namespace
}  // namespace deliverd
