#include "daemon/stop_signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <system_error>
#include <utility>

#include "base/mutex.h"

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

int checked(int fd, const char* what) {
    if (fd < 0) throw std::system_error(errno, std::generic_category(), what);
    return fd;
}

}  // namespace

StopSignals::StopSignals() {
    const sigset_t set = stop_set();
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    signal_fd_ = checked(signalfd(-1, &set, SFD_CLOEXEC), "signalfd");
    stop_fd_ = checked(eventfd(0, EFD_CLOEXEC), "eventfd");
    thread_ = std::thread([this] { watch(); });
}

StopSignals::~StopSignals() {
    const std::uint64_t one = 1;
    while (write(stop_fd_, &one, sizeof one) < 0 && errno == EINTR) {
    }
    thread_.join();
    close(signal_fd_);
    close(stop_fd_);
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

void StopSignals::run_due_actions() {
    while (!actions_.empty() && actions_.begin()->first <= seen_) {
        const std::function<void()> action = std::move(actions_.begin()->second);
        actions_.erase(actions_.begin());
        action();
    }
}

void StopSignals::watch() {
    while (true) {
        std::array<pollfd, 2> fds{pollfd{signal_fd_, POLLIN, 0}, pollfd{stop_fd_, POLLIN, 0}};
        if (poll(fds.data(), fds.size(), -1) < 0) continue;  // EINTR
        if ((fds[1].revents & POLLIN) != 0) return;
        signalfd_siginfo info{};
        if (read(signal_fd_, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) continue;
        const MutexLock lock(mutex_);
        ++seen_;
        changed_.notify_all();
        run_due_actions();
    }
}

}  // namespace deliverd::daemon
