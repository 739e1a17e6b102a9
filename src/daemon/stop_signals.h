// SIGTERM, SIGINT and SIGHUP as something to wait for. A thread takes them: a handler may do almost nothing safely.
#pragma once

#include <pthread.h>

#include <csignal>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"

namespace deliverd::daemon {

/// Blocks these signals in the calling thread and in every thread started while it lives: make it before anything that
/// starts threads. The destructor joins the thread that takes them.
class StopSignals {
public:
    StopSignals() {
        // Before the thread, which inherits it: a signal must not find any thread that would die of it.
        pthread_sigmask(SIG_BLOCK, &set_, nullptr);
        thread_ = std::thread([this] { watch(); });
    }
    ~StopSignals() {
        {
            const MutexLock lock(mutex_);
            ending_ = true;
        }
        // Sent to that thread alone, so that it cannot end the process after the thread has gone: it is dropped then.
        pthread_kill(thread_.native_handle(), SIGTERM);
        thread_.join();
        pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
    }

    /// Waits for the first signal; false when `patience` passed without one.
    bool wait_for(Duration patience) {
        MutexLock lock(mutex_);
        return changed_.wait_for(mutex_, patience, [this]() REQUIRES(mutex_) { return seen_ > 0; });
    }
    /// Waits for the first signal.
    void wait() {
        MutexLock lock(mutex_);
        changed_.wait(mutex_, [this]() REQUIRES(mutex_) { return seen_ > 0; });
    }

    /// Runs `action` once: at the signal with this number (1 is the first) on the thread that takes it, or at once if
    /// it has come already. It must not call back into this object.
    void on_signal(int number, std::function<void()> action) {
        const MutexLock lock(mutex_);
        actions_.emplace(number, std::move(action));
        run_due_actions();
    }
    /// Drops all actions, after waiting for one under way.
    void clear_actions() {
        const MutexLock lock(mutex_);
        actions_.clear();
    }

private:
    static sigset_t stop_set() {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGHUP);  // a terminal that goes away
        return set;
    }

    void watch() {
        while (true) {
            int number = 0;
            if (sigwait(&set_, &number) != 0) continue;
            const MutexLock lock(mutex_);
            if (ending_) return;
            ++seen_;
            changed_.notify_all();
            run_due_actions();
        }
    }

    // With the mutex held, so that clear_actions() returns only when no action runs any more.
    void run_due_actions() REQUIRES(mutex_) {
        while (!actions_.empty() && actions_.begin()->first <= seen_) {
            const std::function<void()> action = std::move(actions_.begin()->second);
            actions_.erase(actions_.begin());
            action();
        }
    }

    const sigset_t set_ = stop_set();
    Mutex mutex_;
    Condition changed_;
    int seen_ GUARDED_BY(mutex_) = 0;
    std::multimap<int, std::function<void()>> actions_ GUARDED_BY(mutex_);  // by the signal's number
    bool ending_ GUARDED_BY(mutex_) = false;
    std::thread thread_;
};

}  // namespace deliverd::daemon
