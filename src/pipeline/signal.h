// How the threads of an engine wake each other.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/clock.h"

namespace deliverd::pipeline {

/// No thread waits longer than this, so that a lost poke costs a moment and not a standstill.
inline constexpr Duration kLongestNap = std::chrono::seconds(1);

/// Wakes one waiting thread. A poke that comes before the wait is not lost.
class Signal {
public:
    void poke() {
        if (poked_.exchange(true)) return;
        {
            const std::lock_guard lock(mutex_);
        }  // a waiter is either before its check or already waiting
        condition_.notify_one();
    }

    /// Until poked or `deadline`, whichever is first.
    void wait_until(std::chrono::steady_clock::time_point deadline) {
        std::unique_lock lock(mutex_);
        condition_.wait_until(lock, deadline, [this] { return poked_.load(); });
        poked_.store(false);
    }

private:
    std::atomic<bool> poked_{false};
    std::mutex mutex_;
    std::condition_variable condition_;
};

/// Each wakes one thread of an engine; `stopping` whoever waits for it to stop.
struct Signals {
    Signal take;
    Signal send;
    Signal settle;
    Signal keep;
    Signal stopping;
};

}  // namespace deliverd::pipeline
