// A dead-letter topic in memory, as one member of a consumer group reads it, and a clock that only polls move.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "deadletter/ports.h"

namespace deliverd::deadletter {

/// Stands still until it is moved. Thread-safe.
class HandClock final : public Clock {
public:
    [[nodiscard]] Instant now() const override { return Instant(std::chrono::hours(1)) + Duration(elapsed_.load()); }
    [[nodiscard]] WallTime wall_now() const override { return WallTime{}; }
    void move(Duration span) { elapsed_ += span.count(); }
    [[nodiscard]] Duration elapsed() const { return Duration(elapsed_.load()); }

private:
    std::atomic<Duration::rep> elapsed_{0};
};

class FakeSource final : public RecordSource {
public:
    explicit FakeSource(HandClock& clock) : clock_(clock) {}

    // --- for tests -------------------------------------------------------------------------------------------------

    std::vector<Record> topic;  // all there is, in order
    std::function<void()> on_poll = [] {};
    bool commit_fails = false;
    bool is_reachable = true;
    bool knows_lag = true;
    bool cannot_work = false;
    std::size_t late = 0;  // records that come while it is paused: they were under way
    bool waits = false;    // poll() really waits, until wake(): for a thread

    /// The partitions go away and come back, as in a rebalance: reading continues where the group has committed.
    void rebalance() { given_ = committed_; }
    [[nodiscard]] std::size_t committed() const { return committed_; }
    [[nodiscard]] std::size_t given() const { return given_; }  // from any thread
    [[nodiscard]] bool woken() {                                // from any thread
        const std::lock_guard lock(mutex_);
        return wake_;
    }
    [[nodiscard]] bool paused() const { return paused_; }
    [[nodiscard]] int polls_while_paused() const { return polls_while_paused_; }
    [[nodiscard]] int commits() const { return commits_; }
    [[nodiscard]] Duration longest_wait() const { return longest_wait_; }

    // --- the port --------------------------------------------------------------------------------------------------

    Result<std::vector<Record>> poll(std::size_t limit, std::size_t max_bytes, Duration wait) override {
        on_poll();
        if (cannot_work) return permanent("bad_setting", "no such mechanism");
        longest_wait_ = std::max(longest_wait_, wait);
        if (paused_) ++polls_while_paused_;
        std::vector<Record> records;
        std::size_t bytes = 0;
        while ((!paused_ || late > 0) && given_ < topic.size() && records.size() < limit && bytes < max_bytes) {
            if (paused_) --late;
            records.push_back(topic[given_++]);
            bytes += records.back().value ? records.back().value->size() : 0;
        }
        if (!records.empty()) return records;
        if (waits && wait > Duration::zero()) {
            std::unique_lock lock(mutex_);
            woken_.wait_for(lock, std::chrono::seconds(20), [this] { return wake_; });
        }
        clock_.move(wait);
        return records;
    }
    Result<void> commit(Duration) override {
        ++commits_;
        if (commit_fails) return retryable("broker", "not now");
        committed_ = given_;
        return {};
    }
    void pause() override { paused_ = true; }
    void resume() override {
        paused_ = false;
        given_ = committed_;
    }
    void wake() override {
        const std::lock_guard lock(mutex_);
        wake_ = true;
        woken_.notify_all();
    }
    [[nodiscard]] bool reachable() override { return is_reachable; }
    [[nodiscard]] std::int64_t lag() override {
        return knows_lag ? static_cast<std::int64_t>(topic.size() - committed_) : -1;
    }

private:
    HandClock& clock_;
    std::atomic<std::size_t> given_ = 0;
    std::size_t committed_ = 0;
    bool paused_ = false;
    int polls_while_paused_ = 0;
    int commits_ = 0;
    Duration longest_wait_{};
    std::mutex mutex_;
    std::condition_variable woken_;
    bool wake_ = false;
};

}  // namespace deliverd::deadletter
