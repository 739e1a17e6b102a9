// For this room's tests: a broker that answers as the test says, a log that remembers, and waiting for a condition.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "deadletter/ports.h"

namespace deliverd::deadletter {

/// Looks every few milliseconds until it holds; false after the deadline.
template <typename Condition>
bool eventually(Condition condition, Duration deadline = std::chrono::seconds(20)) {
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    const auto until = std::chrono::steady_clock::now() + deadline;
    while (std::chrono::steady_clock::now() < until) {
        if (condition()) return true;
        never.wait_for(lock, std::chrono::milliseconds(2));
    }
    return condition();
}

class FakeReplayer final : public Replayer {
public:
    /// Called with each record; what it answers is the outcome.
    std::function<Outcome(const Record&)> answer = [](const Record& record) {
        return Outcome{.kind = OutcomeKind::delivered, .receipt = record.topic + "[0]@1"};
    };
    std::function<void()> before = [] {};  // each publish()

    std::vector<Outcome> publish(std::span<const Record> records) override {
        before();
        std::vector<Outcome> outcomes;
        for (const Record& record : records) {
            outcomes.push_back(answer(record));
            const std::lock_guard lock(mutex_);
            // What is in doubt has arrived: the worse case.
            const OutcomeKind kind = outcomes.back().kind;
            if (kind == OutcomeKind::delivered || kind == OutcomeKind::ambiguous) arrived_.push_back(record);
        }
        const std::lock_guard lock(mutex_);
        batches_.push_back(records.size());
        return outcomes;
    }
    Result<void> check(Duration) override {
        if (is_reachable) return {};
        return retryable("BROKER_UNREACHABLE", "switched off");
    }
    void stop() override {}

    bool is_reachable = true;

    [[nodiscard]] std::vector<Record> arrived() {
        const std::lock_guard lock(mutex_);
        return arrived_;
    }
    [[nodiscard]] std::vector<std::size_t> batches() {
        const std::lock_guard lock(mutex_);
        return batches_;
    }

private:
    std::mutex mutex_;
    std::vector<Record> arrived_;
    std::vector<std::size_t> batches_;
};

class RecordingLog final : public Log {
public:
    void write(LogLevel level, std::string_view event, Fields) override {
        const std::lock_guard lock(mutex_);
        lines_.emplace_back(level, std::string(event));
    }
    [[nodiscard]] std::int64_t count(LogLevel level) {
        const std::lock_guard lock(mutex_);
        return std::ranges::count(lines_, level, &std::pair<LogLevel, std::string>::first);
    }

private:
    std::mutex mutex_;
    std::vector<std::pair<LogLevel, std::string>> lines_;
};

}  // namespace deliverd::deadletter
