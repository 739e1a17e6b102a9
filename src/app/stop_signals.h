// SIGTERM, SIGINT and SIGHUP as something to wait for, instead of handlers that may do next to nothing.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "base/clock.h"

namespace deliverd::app {

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

    /// `action` runs once, on the watching thread at the n-th signal (1 is the first), or at once when that has
    /// been. It must not call back into this object.
    void on_signal(int number, std::function<void()> action);
    /// Drops all actions, after waiting for one under way.
    void clear_actions();

private:
    void watch();
    void run_due_actions();  // with the mutex held

    std::mutex mutex_;
    std::condition_variable changed_;
    int seen_ = 0;
    std::multimap<int, std::function<void()>> actions_;  // by the signal's number
    int signal_fd_ = -1;
    int stop_fd_ = -1;
    std::thread thread_;
};

}  // namespace deliverd::app
