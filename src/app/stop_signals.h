// SIGTERM and SIGINT as something to wait for, instead of handlers that may do next to nothing.
#pragma once

#include <condition_variable>
#include <functional>
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

    /// `action` runs on the watching thread at the n-th signal (1 is the first), or at once when it has been.
    /// It is dropped by clear_action(), which waits for a run under way.
    void on_signal(int number, std::function<void()> action);
    void clear_action();

private:
    void watch();

    std::mutex mutex_;
    std::condition_variable changed_;
    int seen_ = 0;
    int action_at_ = 0;
    std::function<void()> action_;
    int signal_fd_ = -1;
    int stop_fd_ = -1;
    std::thread thread_;
};

}  // namespace deliverd::app
