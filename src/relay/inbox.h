// Where the sink's threads leave outcomes until the sender has time for them.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "lane/shared.h"
#include "relay/relay_core.h"
#include "sink/sink.h"

namespace deliverd::relay {

/// Thread-safe; waits for nothing but its own short lock. One poke for all that come while the sender is busy.
class Inbox final : public sink::OutcomeReceiver {
public:
    Inbox(const Clock& clock, lane::Signal& signal) : clock_(clock), signal_(signal) {}

    void on_outcome(const Message& message, Outcome outcome) override {
        const Instant now = clock_.now();
        bool first = false;
        {
            const std::lock_guard lock(mutex_);
            first = answers_.empty();
            answers_.push_back({&message, std::move(outcome), now});
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
    lane::Signal& signal_;
    mutable std::mutex mutex_;
    std::vector<Answer> answers_;  // at most `parallelism`
};

}  // namespace deliverd::relay
