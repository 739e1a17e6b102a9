// What a lane counts, what it reports to its observer and what it writes to the log, in the same words for every
// engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "deliverd/result.h"
#include "message/message.h"
#include "pipeline/log_limiter.h"
#include "pipeline/observer.h"
#include "pipeline/runner.h"
#include "store/row_queue.h"

namespace deliverd::pipeline {

/// db_timeout or db_error.
[[nodiscard]] Reason reason_of(const Error& error);

/// Thread-safe; waits for nothing but its own short lock.
class Reporter {
public:
    /// `observer` and `log` outlive it.
    Reporter(std::string lane, Observer& observer, Log& log) : lane_(std::move(lane)), observer_(observer), log_(log) {}

    [[nodiscard]] Observer& observer() const { return observer_; }
    [[nodiscard]] Log& log() const { return log_; }
    [[nodiscard]] const std::string& lane() const { return lane_; }
    [[nodiscard]] LaneTotals totals() const;

    /// Runs `call`, a method of a store, and reports how long it took and whether it worked.
    template <typename Call>
    auto timed(const Clock& clock, std::string_view operation, Call&& call) {
        const Instant began = clock.now();
        auto answer = std::forward<Call>(call)();
        observer_.on_database_call(operation, clock.now() - began, answer.has_value());
        return answer;
    }
    void add(std::uint64_t LaneTotals::* count, std::uint64_t amount);
    /// A look at the table took `rows` rows.
    void claimed(std::size_t rows);
    /// A settlement took effect.
    void settled(const store::Settlement& settlement);
    /// A settlement found that its row, or its shard, is someone else's.
    void conflict();
    /// `rows` settlements were given up; `first` names one of the rows.
    void gave_up_settling(std::size_t rows, std::string_view first);
    /// A call to the store concerned `rows` rows and failed.
    void database_failed(Instant now, std::string_view operation, const Error& error, std::size_t rows);
    /// A send failed; `settlement` is what follows from it.
    void send_failed(Instant now, const Message& message, const Outcome& outcome, const store::Settlement& settlement);
    /// A message waits because its sink cannot try it: everything waits, or its topic alone.
    void put_off(Instant now, const Message& message, const Outcome& outcome, bool topic_alone);
    /// The limit of sends per second changed; none: there is no limit.
    void send_rate(const std::optional<double>& before, const std::optional<double>& after);

private:
    const std::string lane_;
    Observer& observer_;
    Log& log_;
    mutable Mutex mutex_;
    LaneTotals totals_ GUARDED_BY(mutex_);
    LogLimiter failure_lines_ GUARDED_BY(mutex_);
    LogLimiter database_lines_ GUARDED_BY(mutex_);
    RepeatLimiter other_shards_lines_ GUARDED_BY(mutex_);
    RepeatLimiter put_off_lines_ GUARDED_BY(mutex_);
};

/// Reports the depth of a queue whenever it has changed. Only the thread that takes from a queue reports it: two
/// threads could overtake each other, and an empty queue would be shown with something in it.
class QueueDepth {
public:
    explicit QueueDepth(std::string_view queue) : queue_(queue) {}
    void report(Observer& observer, std::size_t items) {
        if (reported_ == items) return;
        reported_ = items;
        observer.on_queue_depth(queue_, items);
    }

private:
    const std::string_view queue_;  // a literal
    std::optional<std::size_t> reported_;
};

}  // namespace deliverd::pipeline
