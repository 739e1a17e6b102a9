// Where the sink's threads leave outcomes until the sender has time for them.
#pragma once

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "pipeline/signal.h"
#include "sink/sink.h"

namespace deliverd::pipeline {

/// How a send ended, as the sink's thread left it.
struct Answer {
    const Message* message = nullptr;  // valid only while the engine has it under way
    Outcome outcome;
    Instant at;
    std::int64_t id = 0;  // the message's
};

/// Thread-safe; waits for nothing but its own short lock. One poke for all that come while the sender is busy.
class Inbox final : public sink::OutcomeReceiver {
public:
    /// Both outlive it.
    Inbox(const Clock& clock, Signal& signal) : clock_(clock), signal_(signal) {}

    void on_outcome(const Message& message, Outcome outcome) override {
        const Instant now = clock_.now();
        bool first = false;
        {
            const std::lock_guard lock(mutex_);
            first = answers_.empty();
            answers_.push_back({&message, std::move(outcome), now, message.id});
        }
        if (first) signal_.poke();
    }

    /// Swaps what came into `answers`, which is emptied first.
    void take(std::vector<Answer>& answers) {
        answers.clear();
        const std::lock_guard lock(mutex_);
        answers_.swap(answers);
    }
    [[nodiscard]] bool empty() const {
        const std::lock_guard lock(mutex_);
        return answers_.empty();
    }

private:
    const Clock& clock_;
    Signal& signal_;
    mutable std::mutex mutex_;
    std::vector<Answer> answers_;  // at most `parallelism`
};

}  // namespace deliverd::pipeline
