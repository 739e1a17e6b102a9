// A thread that does the same thing again and again.
#pragma once

#include <functional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"

namespace deliverd::daemon {

class Periodic {
public:
    /// Does one turn and answers how long to pause until the next one. Must not throw.
    using Turn = std::function<Duration()>;

    /// Calls `turn` at once, and then after each pause. Every pause lasts at least `shortest_pause`.
    explicit Periodic(Turn turn, Duration shortest_pause = {})
        : turn_(std::move(turn)), shortest_pause_(shortest_pause), thread_([this] { run(); }) {}
    /// Waits for a turn under way.
    ~Periodic() {
        {
            const MutexLock lock(mutex_);
            ends_ = true;
        }
        wake_.notify_all();
        thread_.join();
    }

    /// Cuts the pause short, or the one after the turn under way. Does not wait for a turn. Thread-safe.
    void hurry() {
        const MutexLock lock(mutex_);
        if (!std::exchange(hurried_, true)) wake_.notify_all();
    }

private:
    void run() {
        MutexLock lock(mutex_);
        while (!ends_) {
            // Before the turn: a call during the turn may be about something that the turn has not read.
            hurried_ = false;
            lock.unlock();
            const Duration pause = turn_();
            lock.lock();
            wake_.wait_for(mutex_, shortest_pause_, [this]() REQUIRES(mutex_) { return ends_; });
            wake_.wait_for(mutex_, pause - shortest_pause_, [this]() REQUIRES(mutex_) { return ends_ || hurried_; });
        }
    }

    const Turn turn_;
    const Duration shortest_pause_;
    Mutex mutex_;
    Condition wake_;
    bool hurried_ GUARDED_BY(mutex_) = false;
    bool ends_ GUARDED_BY(mutex_) = false;
    std::thread thread_;
};

}  // namespace deliverd::daemon
