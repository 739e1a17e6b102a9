// How the threads of an engine, and the sink's, wake and stop each other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "sink/sink.h"

namespace deliverd::pipeline {

/// No thread waits longer than this, so that a lost poke costs a moment and not a standstill.
inline constexpr Duration kLongestNap = std::chrono::seconds(1);

/// Wakes one waiting thread. A poke that comes before the wait is not lost.
class Signal {
public:
    void poke() {
        if (poked_.exchange(true)) return;
        {
            const MutexLock lock(mutex_);
        }  // a waiter is either before its check or already waiting
        condition_.notify_one();
    }

    /// Until poked or `deadline`, whichever is first.
    void wait_until(Instant deadline) {
        const MutexLock lock(mutex_);
        condition_.wait_until(mutex_, deadline, [this] { return poked_.load(); });
        poked_.store(false);
    }

private:
    std::atomic<bool> poked_{false};
    Mutex mutex_;
    Condition condition_;
};

/// How a send ended, as the sink's thread left it.
struct Answer {
    const Message* message = nullptr;  // valid only while the engine has it under way
    Outcome outcome;
    Instant at;
    std::int64_t id = 0;  // the message's
};

/// Where the sink's threads leave outcomes until the sender has time for them. Thread-safe; waits for nothing but its
/// own short lock. One poke for all that come while the sender is busy.
class Inbox final : public sink::OutcomeReceiver {
public:
    /// Both outlive it.
    Inbox(const Clock& clock, Signal& signal) : clock_(clock), signal_(signal) {}

    void on_outcome(const Message& message, Outcome outcome) override {
        const Instant now = clock_.now();
        bool first = false;
        {
            const MutexLock lock(mutex_);
            first = answers_.empty();
            answers_.push_back({&message, std::move(outcome), now, message.id});
        }
        if (first) signal_.poke();
    }

    /// Replaces `answers` by what came.
    void take(std::vector<Answer>& answers) {
        answers.clear();
        const MutexLock lock(mutex_);
        answers_.swap(answers);
    }
    [[nodiscard]] bool empty() const {
        const MutexLock lock(mutex_);
        return answers_.empty();
    }

private:
    const Clock& clock_;
    Signal& signal_;
    mutable Mutex mutex_;
    std::vector<Answer> answers_ GUARDED_BY(mutex_);  // at most `parallelism`
};

/// One per engine.
struct Control {
    explicit Control(const Clock& clock) : inbox(clock, signals.send) {}

    struct {
        Signal take, send, settle, keep;  // each wakes one thread
        Signal stopping;                  // the thread that waits for the engine to stop
    } signals;
    Inbox inbox;                        // sink → send
    std::atomic<bool> draining{false};  // take and send nothing more
    std::atomic<bool> cut_off{false};   // the sink is being stopped: an ambiguous outcome is our own doing
};

}  // namespace deliverd::pipeline
