// For the lane's tests: a sink that does as told, a way to the outbox that can be switched off, a log that remembers,
// and waiting for a condition.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "lane/testing/fake_outbox.h"
#include "sink/sink.h"

namespace deliverd::lane {

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
    [[nodiscard]] std::string_view name() const override { return "scripted"; }

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

/// Refuses calls while told to.
class SwitchedOutbox final : public store::Outbox {
public:
    explicit SwitchedOutbox(FakeOutbox& inner) : inner_(inner) {}

    Result<store::ClaimBatch> claim(const store::ClaimRequest& request) override {
        if (down) return away();
        return inner_.claim(request);
    }
    Result<std::vector<store::SettleAnswer>> settle(std::string_view worker,
                                                    std::span<const store::Settlement> settlements) override {
        ++settle_calls;
        if (down || settle_fails) return away();
        for (const store::Settlement& settlement : settlements) {
            if (refuse_all || settlement.id == poison) return permanent("db_error", "cannot be stored");
        }
        std::vector<store::Settlement> free;
        for (const store::Settlement& settlement : settlements) {
            if (settlement.id != busy) free.push_back(settlement);
        }
        auto answers = inner_.settle(worker, free);
        for (std::size_t i = 0; i < settlements.size(); ++i) {
            if (settlements[i].id != busy) continue;
            store::RowState row{.phase = store::RowPhase::open, .status = "pending", .locked_by = std::string(worker)};
            answers->insert(answers->begin() + static_cast<std::ptrdiff_t>(i), {busy, false, std::move(row)});
        }
        if (settle_answers_lost) return ambiguous("db_error", "the answer was lost");
        return answers;
    }
    Result<store::RenewAnswer> renew(std::string_view worker, std::span<const std::int64_t> ids) override {
        ++renew_calls;
        if (down || renew_fails) return away();
        return inner_.renew(worker, ids);
    }
    Result<std::int64_t> release(std::string_view worker, std::span<const std::int64_t> ids) override {
        if (down) return away();
        return inner_.release(worker, ids);
    }
    Result<std::int64_t> rescue(std::string_view worker, Duration stuck_for) override {
        if (down) return away();
        return inner_.rescue(worker, stuck_for);
    }
    Result<void> audit(std::string_view worker, std::span<const store::AuditNote> notes) override {
        if (down) return away();
        return inner_.audit(worker, notes);
    }
    Result<double> lag_seconds() override { return inner_.lag_seconds(); }
    Result<store::OutboxCounts> counts() override { return inner_.counts(); }
    Result<void> ping(Duration) override { return {}; }

    std::atomic<bool> down{false};
    std::atomic<bool> renew_fails{false};
    std::atomic<bool> settle_fails{false};
    std::atomic<bool> settle_answers_lost{false};  // it took effect
    std::atomic<std::int64_t> poison{0};
    std::atomic<bool> refuse_all{false};
    std::atomic<std::int64_t> busy{0};  // locked by someone
    std::atomic<int> settle_calls{0};
    std::atomic<int> renew_calls{0};

private:
    static Failure away() { return retryable("db_unreachable", "switched off"); }
    FakeOutbox& inner_;
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

}  // namespace deliverd::lane
