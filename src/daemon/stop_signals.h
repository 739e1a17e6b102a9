// SIGTERM, SIGINT and SIGHUP as something to wait for. A thread takes them: a handler may do almost nothing safely.
#pragma once

#include <functional>
#include <map>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"

namespace deliverd::daemon {

/// Blocks these signals in the calling thread and in every thread started while it lives: make it before anything that
/// starts threads. The destructor joins the thread that takes them.
class StopSignals {
public:
    StopSignals();
    ~StopSignals();

    /// Waits for the first signal; false when `patience` passed without one.
    bool wait_for(Duration patience);
    /// Waits for the first signal.
    void wait();

    /// Runs `action` once: at the signal with this number (1 is the first) on the thread that takes it, or at once if
    /// it has come already. It must not call back into this object.
    void on_signal(int number, std::function<void()> action);
    /// Drops all actions, after waiting for one under way.
    void clear_actions();

private:
    void watch();
    void run_due_actions() REQUIRES(mutex_);

    Mutex mutex_;
    Condition changed_;
    int seen_ GUARDED_BY(mutex_) = 0;
    std::multimap<int, std::function<void()>> actions_ GUARDED_BY(mutex_);  // by the signal's number
    bool ending_ GUARDED_BY(mutex_) = false;
    std::thread thread_;
};

}  // namespace deliverd::daemon
