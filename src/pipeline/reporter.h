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
#include "store/row_queue.h"

namespace deliverd::pipeline {

/// What a lane has done since it was made.
struct LaneTotals {
    std::uint64_t claimed = 0;
    std::uint64_t sent = 0;
    std::uint64_t duplicates = 0;  // not sent: an equal message was sent before
    std::uint64_t retried = 0;
    std::uint64_t dead = 0;
    std::uint64_t conflicts = 0;  // settled by someone else in the meantime
    std::uint64_t abandoned = 0;  // left to their leases: the database was away, or there was no time to finish
    std::uint64_t released = 0;   // given back unsent
    std::uint64_t put_off = 0;    // sends that the sink could not try
    std::uint64_t database_errors = 0;

    LaneTotals& operator+=(const LaneTotals& other) {
        claimed += other.claimed;
        sent += other.sent;
        duplicates += other.duplicates;
        retried += other.retried;
        dead += other.dead;
        conflicts += other.conflicts;
        abandoned += other.abandoned;
        released += other.released;
        put_off += other.put_off;
        database_errors += other.database_errors;
        return *this;
    }
    [[nodiscard]] bool anything_failed() const {
        return retried + dead + conflicts + abandoned + put_off + database_errors > 0;
    }
};

/// db_timeout or db_error.
[[nodiscard]] Reason reason_of(const Error& error);

/// Thread-safe; waits for nothing but its own short lock.
class Reporter {
public:
    /// `observer` and `log` outlive it.
    Reporter(std::string lane, Observer& observer, Log& log) : lane_(std::move(lane)), observer_(observer), log_(log) {}

    [[nodiscard]] Observer& observer() const { return observer_; }
    [[nodiscard]] Log& log() const { return log_; }
    [[nodiscard]] LaneTotals totals() const {
        const MutexLock lock(mutex_);
        return totals_;
    }

    /// Runs `call`, a method of a store, and reports how long it took and whether it worked.
    template <typename Call>
    auto timed(const Clock& clock, std::string_view operation, Call&& call) {
        const Instant began = clock.now();
        auto answer = std::forward<Call>(call)();
        observer_.on_database_call(operation, clock.now() - began, answer.has_value());
        return answer;
    }
    /// timed(), for a call about `rows` rows; reports its failure too.
    template <typename Call>
    auto call(const Clock& clock, std::string_view operation, std::size_t rows, Call&& call) {
        auto answer = timed(clock, operation, std::forward<Call>(call));
        if (!answer) database_failed(clock.now(), operation, answer.error(), rows);
        return answer;
    }
    void add(std::uint64_t LaneTotals::* count, std::uint64_t amount) {
        const MutexLock lock(mutex_);
        totals_.*count += amount;
    }
    /// A poll of the table took `rows` rows.
    void claimed(std::size_t rows) {
        add(&LaneTotals::claimed, rows);
        observer_.on_claimed(rows);
    }
    /// A settlement took effect.
    void settled(const store::Settlement& settlement);
    /// A settlement found that its row, or its shard, is someone else's.
    void conflict() {
        add(&LaneTotals::conflicts, 1);
        observer_.on_flush(Reason::conflict, 1);
    }
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
    LogLimiter failure_lines_{10, std::chrono::seconds(1)};
    LogLimiter database_lines_{10, std::chrono::seconds(1)};
    // Trouble that lasts: a line when it begins or changes, then one per minute.
    LogLimiter other_shards_lines_{1, std::chrono::minutes(1)};
    LogLimiter put_off_lines_{1, std::chrono::minutes(1)};
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
