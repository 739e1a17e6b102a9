// SIGTERM, SIGINT and SIGHUP as something to wait for, instead of handlers that may do next to nothing.
#pragma once

#include <functional>
#include <map>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"

namespace deliverd::daemon {

/// Blocks both signals in the calling thread and in every thread started while it lives: make it before
/// anything that starts threads. A dedicated thread takes the signals. The destructor joins it.
class StopSignals {
public:
    StopSignals();
    ~StopSignals();
    StopSignals(const StopSignals&) = delete;
    StopSignals& operator=(const StopSignals&) = delete;

    /// Waits for the first signal; false when `patience` passed without one.
    bool wait_for(Duration patience);
    /// Waits for the first signal.
    void wait();

    /// `action` runs once: on the watching thread at the n-th signal (1 is the first), or at once if that signal has
    /// come already. It must not call back into this object.
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
    int signal_fd_ = -1;
    int stop_fd_ = -1;
    std::thread thread_;
};

}  // namespace deliverd::daemon
