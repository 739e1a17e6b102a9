// The chassis of sinks: a queue of messages for one thread, which ends when the sink is stopped.
//
// A sink on it defines what its thread does (run), how to wake it (wake) and, where its library cannot be interrupted
// otherwise, how to cut a wait short (cut). The hand-over, the stop and what they promise (sink.h) exist only here.
// The kafka sink, whose library has threads and a queue of its own, shares the outcomes and the deadline of a stop.
//
//     send() ──▶ incoming_ ──▶ run() ──▶ Job::report()        stop(): stop_at_, wake(); cut() if it is late; join
#pragma once

#include <fmt/format.h>

#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "sink/sink.h"

namespace deliverd::sink {

/// A message and the receiver of its outcome.
struct Job {
    const Message* message = nullptr;
    OutcomeReceiver* receiver = nullptr;
    Instant arrived{};  // when it was given to the sink
    void report(Outcome outcome) const { receiver->on_outcome(*message, std::move(outcome)); }
};

/// The sink was stopped: for a message that certainly did not go out, and for one that may have.
[[nodiscard]] Outcome stopped_unsent();
[[nodiscard]] Outcome stopped_under_way();

/// The deadline of a stop. A later call with less patience brings it forward.
[[nodiscard]] Instant stop_deadline(Instant now, Duration patience, const std::optional<Instant>& before);

class ThreadSink : public Sink {
public:
    /// The derived class starts the thread at the end of its constructor and stops it at the beginning of its
    /// destructor.
    ~ThreadSink() override;

    void send(std::span<const Message* const> messages, OutcomeReceiver& receiver) final EXCLUDES(mutex_);
    void stop(Duration patience) final EXCLUDES(mutex_);

protected:
    ThreadSink() = default;
    void begin();

    /// On the thread, which has SIGPIPE blocked. Returns soon after stop_at_; before that it reports whatever it has
    /// taken from incoming_. What is left there is reported for it.
    virtual void run() = 0;
    /// Messages were handed over, or a stop was requested.
    virtual void wake() REQUIRES(mutex_) = 0;
    /// The thread did not end in time.
    virtual void cut() REQUIRES(mutex_) {}
    /// The outcome of messages that must not be handed over now, if any.
    [[nodiscard]] virtual std::optional<Outcome> refusal() const REQUIRES(mutex_) { return std::nullopt; }

    const SystemClock clock_;
    Mutex mutex_;
    std::deque<Job> incoming_ GUARDED_BY(mutex_);  // bounded by the caller, which keeps at most `parallelism` under way
    std::optional<Instant> stop_at_ GUARDED_BY(mutex_);  // set once stop() was called

private:
    Condition end_;
    bool has_ended_ GUARDED_BY(mutex_) = false;
    Mutex join_mutex_;
    std::thread thread_;
};

/// Makes a sink of class T; `name` is for people. Failure: retryable, `no_resources`, without memory, threads or files
/// for it.
template <typename T, typename... Arguments>
[[nodiscard]] Result<std::unique_ptr<Sink>> start_sink(std::string_view name, Arguments&&... arguments) {
    try {
        return std::make_unique<T>(std::forward<Arguments>(arguments)...);
    } catch (const std::exception& error) {
        return retryable("no_resources", fmt::format("cannot start the {} sink: {}", name, error.what()));
    }
}

}  // namespace deliverd::sink
