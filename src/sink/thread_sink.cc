#include "sink/thread_sink.h"

#include <pthread.h>

#include <algorithm>
#include <csignal>

#include "base/assert.h"

namespace deliverd::sink {

namespace {

constexpr Duration kLongestPatience = std::chrono::hours(24);
constexpr Duration kEndingTime = std::chrono::milliseconds(200);  // for the thread to see that patience is over

/// A peer that is gone is an error of the write, not the end of the process.
void block_pipe_signal() {
    sigset_t pipe_signal;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, nullptr);
}

}  // namespace

Outcome stopped_unsent() {
    return failed_attempt(OutcomeKind::retryable, kStopped, "the sink was stopped; nothing was sent");
}

Outcome stopped_under_way() {
    return failed_attempt(OutcomeKind::ambiguous, kStopped, "the sink was stopped before the answer came");
}

Instant stop_deadline(Instant now, Duration patience, const std::optional<Instant>& before) {
    const Instant deadline = now + std::clamp(patience, Duration::zero(), kLongestPatience);
    // The least patient caller rules: a destructor must not wait for an earlier, patient stop.
    return before ? std::min(*before, deadline) : deadline;
}

ThreadSink::~ThreadSink() {
    ASSERT(!thread_.joinable());  // run() belongs to the derived class, which is gone
}

void ThreadSink::begin() {
    thread_ = std::thread([this] {
        block_pipe_signal();
        run();
        // Handed over after run() looked for the last time. From now on send() refuses, because stop_at_ is set.
        std::deque<Job> unsent;
        {
            const MutexLock lock(mutex_);
            ASSERT(stop_at_.has_value());
            unsent.swap(incoming_);
        }
        for (const Job& job : unsent) job.report(stopped_unsent());
        const MutexLock lock(mutex_);
        has_ended_ = true;
        end_.notify_all();
    });
}

void ThreadSink::send(std::span<const Message* const> messages, OutcomeReceiver& receiver) {
    std::optional<Outcome> refused;
    {
        const MutexLock lock(mutex_);
        refused = stop_at_ ? stopped_unsent() : refusal();
        if (!refused) {
            const Instant now = clock_.now();
            for (const auto* message : messages) incoming_.push_back({message, &receiver, now});
            wake();
            return;
        }
    }
    // Without the lock: the sink's thread must not wait for the receiver.
    for (const auto* message : messages) receiver.on_outcome(*message, *refused);
}

void ThreadSink::stop(Duration patience) {
    {
        const MutexLock lock(mutex_);
        stop_at_ = stop_deadline(clock_.now(), patience, stop_at_);
        wake();
        // Not by joining, which has no deadline: a thread that sits in a library's call has to be cut loose first.
        const auto has_ended = [this]() REQUIRES(mutex_) { return has_ended_; };
        if (!end_.wait_until(mutex_, *stop_at_ + kEndingTime, has_ended)) cut();
    }
    const MutexLock joining(join_mutex_);  // a second stop() waits here until the thread has ended, too
    if (thread_.joinable()) thread_.join();
}

}  // namespace deliverd::sink
