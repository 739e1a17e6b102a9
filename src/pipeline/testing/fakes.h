// For tests of engines: a sink that does as told, a log that remembers, and waiting for a condition.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "sink/sink.h"

namespace deliverd::pipeline {

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

/// Answers at once, or keeps everything until told.
class ScriptedSink final : public sink::Sink {
public:
    void send(std::span<const Message* const> messages, sink::OutcomeReceiver& receiver) override {
        for (const Message* message : messages) {
            if (stopped) {
                ++sent_after_stop;
                receiver.on_outcome(*message, {.kind = OutcomeKind::retryable, .code = "STOPPED"});
                continue;
            }
            bool keep = false;
            {
                const std::lock_guard lock(mutex);
                sent.push_back(message->id);
                keep = hold;
                if (keep) kept.emplace_back(message, &receiver);
                most_at_once = std::max(most_at_once, kept.size());
            }
            if (!keep) receiver.on_outcome(*message, answer(*message));
        }
    }

    void stop(Duration) override {
        stopped = true;
        release({.kind = OutcomeKind::ambiguous, .code = "STOPPED"});
    }
    Result<void> check(Duration) override { return {}; }

    void release(const Outcome& outcome) {
        std::vector<std::pair<const Message*, sink::OutcomeReceiver*>> taken;
        {
            const std::lock_guard lock(mutex);
            taken.swap(kept);
        }
        for (const auto& [message, receiver] : taken) receiver->on_outcome(*message, outcome);
    }
    std::size_t held() {
        const std::lock_guard lock(mutex);
        return kept.size();
    }
    std::vector<std::int64_t> sends() {
        const std::lock_guard lock(mutex);
        return sent;
    }

    std::function<Outcome(const Message&)> answer = [](const Message& message) {
        return Outcome{.kind = OutcomeKind::delivered, .receipt = "m-" + std::to_string(message.id)};
    };
    std::atomic<bool> hold{false};
    std::atomic<bool> stopped{false};
    std::atomic<int> sent_after_stop{0};
    std::mutex mutex;
    std::vector<std::int64_t> sent;
    std::vector<std::pair<const Message*, sink::OutcomeReceiver*>> kept;
    std::size_t most_at_once = 0;
};

/// Keeps the events.
class RecordingLog final : public Log {
public:
    void write(LogLevel level, std::string_view event, Fields fields) override {
        const std::lock_guard lock(mutex);
        std::string line = (level == LogLevel::error ? "error: " : "warn: ") + std::string(event);
        for (const LogField& field : fields) {
            if (const auto* text = std::get_if<std::string_view>(&field.value)) {
                line += " " + std::string(field.name) + "=" + std::string(*text);
            }
        }
        lines.push_back(std::move(line));
    }
    std::mutex mutex;
    std::vector<std::string> lines;
};

}  // namespace deliverd::pipeline
