#include "daemon/stop_signals.h"

#include <pthread.h>

#include <csignal>
#include <utility>

namespace deliverd::daemon {

namespace {

sigset_t stop_set() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);  // a terminal that goes away
    return set;
}

}  // namespace

StopSignals::StopSignals() {
    const sigset_t set = stop_set();
    // Before the thread, which inherits it: a signal must not find any thread that would die of it.
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    thread_ = std::thread([this] { watch(); });
}

StopSignals::~StopSignals() {
    {
        const MutexLock lock(mutex_);
        ending_ = true;
    }
    // Sent to that thread alone, so that it cannot end the process after the thread has gone: it is dropped then.
    pthread_kill(thread_.native_handle(), SIGTERM);
    thread_.join();
    const sigset_t set = stop_set();
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

bool StopSignals::wait_for(Duration patience) {
    MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, patience, [this]() REQUIRES(mutex_) { return seen_ > 0; });
}

void StopSignals::wait() {
    MutexLock lock(mutex_);
    changed_.wait(mutex_, [this]() REQUIRES(mutex_) { return seen_ > 0; });
}

void StopSignals::on_signal(int number, std::function<void()> action) {
    const MutexLock lock(mutex_);
    actions_.emplace(number, std::move(action));
    run_due_actions();
}

void StopSignals::clear_actions() {
    const MutexLock lock(mutex_);
    actions_.clear();
}

// With the mutex held, so that clear_actions() returns only when no action runs any more.
void StopSignals::run_due_actions() {
    while (!actions_.empty() && actions_.begin()->first <= seen_) {
        const std::function<void()> action = std::move(actions_.begin()->second);
        actions_.erase(actions_.begin());
        action();
    }
}

void StopSignals::watch() {
    const sigset_t set = stop_set();
    while (true) {
        int number = 0;
        if (sigwait(&set, &number) != 0) continue;
        const MutexLock lock(mutex_);
        if (ending_) return;
        ++seen_;
        changed_.notify_all();
        run_due_actions();
    }
}

}  // namespace deliverd::daemon
