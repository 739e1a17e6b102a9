// The chassis of sinks: messages are handed over to one thread, which ends when the sink is stopped.
//
// A sink on it says what its thread does (run), how that is woken (wake) and, where its library cannot be interrupted
// otherwise, how a wait is cut short (cut). The hand-over, the stop and what they promise (sink.h) are the same for
// all.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "sink/sink.h"

namespace deliverd::sink {

/// A message and whom to tell what became of it.
struct Job {
    const Message* message = nullptr;
    OutcomeReceiver* receiver = nullptr;
    Instant arrived{};  // when it was given to the sink

    void report(Outcome outcome) const { receiver->on_outcome(*message, std::move(outcome)); }
};

/// Of a message that certainly did not go out because the sink was stopped; of one that may have.
[[nodiscard]] Outcome stopped_unsent();
[[nodiscard]] Outcome stopped_under_way();

/// The deadline of a stop. A later call with less patience brings it forward.
[[nodiscard]] Instant stop_deadline(Instant now, Duration patience, const std::optional<Instant>& before);

class ThreadSink : public Sink {
public:
    /// The class that derives from it has begun the thread at the end of its constructor, and stops it at the beginning
    /// of its destructor.
    ~ThreadSink() override = default;
    ThreadSink(const ThreadSink&) = delete;
    ThreadSink& operator=(const ThreadSink&) = delete;

    void send(std::span<const Message* const> messages, OutcomeReceiver& receiver) final;
    void stop(Duration patience) final;

protected:
    ThreadSink() = default;
    void begin();

    /// On the thread, which has SIGPIPE blocked (what it starts inherits that). Returns soon after stop_at_, and
    /// reports before that whatever it has taken from incoming_; what is left there is reported for it.
    virtual void run() = 0;
    /// Something was handed over, or the stop was set. With mutex_ held.
    virtual void wake() = 0;
    /// The thread did not end in time. With mutex_ held.
    virtual void cut() {}
    /// Refuses what would be handed over, at once. With mutex_ held.
    [[nodiscard]] virtual std::optional<Outcome> refusal() const { return std::nullopt; }

    const SystemClock clock_;
    std::mutex mutex_;
    std::deque<Job> incoming_;  // guarded by mutex_; bounded by the caller: its `parallelism` are under way at most
    std::optional<Instant> stop_at_;  // guarded by mutex_; set once stop() was called

private:
    std::condition_variable end_;
    bool has_ended_ = false;  // guarded by mutex_
    std::mutex join_mutex_;
    std::thread thread_;
};

}  // namespace deliverd::sink
