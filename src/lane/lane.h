// One lane: rows from an Outbox, through a Sink, and back as settlements.
//
//     claim ─▶ [claimed queue] ─▶ send ─▶ (sink) ─▶ [outcomes] ─▶ [settle queue] ─▶ settle
//
// Three threads (fetch, send, settle) joined by bounded queues, and a fourth that renews leases older than
// a third of their length. Everything they decide is in stages without threads (stages.h), which the
// simulator runs too.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "lane/observer.h"
#include "message/retry_policy.h"
#include "sink/sink.h"
#include "store/outbox.h"

namespace deliverd::lane {

struct LaneOptions {
    std::string name;
    std::string worker_id;                      // unique among all processes on the table
    std::int32_t batch_size = 100;              // rows a claim, and at most a settle
    std::int32_t parallelism = 16;              // messages at the sink at once
    std::size_t held_bytes = 32 * 1024 * 1024;  // no further claim while the rows held are larger together
    Duration lease = std::chrono::seconds(60);
    RetryPolicy retry = RetryPolicy::leases();
    Duration idle_poll = std::chrono::milliseconds(500);    // longest wait between looks at an empty table
    Duration busy_poll = std::chrono::milliseconds(2);      // shortest
    Duration settle_linger = std::chrono::milliseconds(5);  // a settle batch waits this long to fill
    Duration settle_patience = std::chrono::minutes(10);    // then a settle the database refuses is left to its lease
    Duration retry_after_cap = std::chrono::hours(1);       // a receiver cannot ask for more
    bool throttle = false;                                  // RATE_LIMITED slows the whole lane down (throttle.h)
    Duration rescue_interval{};                             // how often Outbox::rescue(lease) is called; 0: never
};

/// What a lane did since it was made.
struct LaneTotals {
    std::uint64_t claimed = 0;
    std::uint64_t sent = 0;
    std::uint64_t duplicates = 0;  // not sent: an equal one already was
    std::uint64_t retried = 0;
    std::uint64_t dead = 0;
    std::uint64_t conflicts = 0;  // settled by someone else meanwhile
    std::uint64_t abandoned = 0;  // left to their leases (database away, or no time to finish)
    std::uint64_t released = 0;   // given back unsent
    std::uint64_t put_off = 0;    // times that the sink could not even try one
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

/// What a hurried stop may still take to record what has ended and to give back what was not sent.
inline constexpr Duration kHurriedGrace = std::chrono::seconds(1);

class Lane {
public:
    /// All references outlive the lane. `random` and `clock` are used by the lane's threads only.
    Lane(LaneOptions options, store::Outbox& outbox, sink::Sink& sink, const Clock& clock, Random& random,
         Observer& observer, Log& log);
    ~Lane();  // stop() without patience

    /// Starts the threads. Returns at once.
    void start();

    /// Claims and sends nothing more from here on; returns at once. stop() does the rest.
    void drain();

    /// Claims nothing more, sends nothing more, waits up to `patience` for what is at the sink, settles it,
    /// gives the unsent rows back, joins the threads. What was not finished is left to its lease and counted
    /// as abandoned. Idempotent.
    void stop(Duration patience);

    /// Makes a stop() under way (or to come) wait for the sink no longer: it ends within kHurriedGrace and what the
    /// store's own limits let its last calls take. Safe from any thread.
    void hurry();

    /// One batch on the calling thread's watch: rescues once where the lane does that, claims once, sends, settles,
    /// returns. Takes as long as the sink's and the store's own limits let it; after drain() only `patience`. A
    /// receiver that asks for a pause ends it: what was not sent yet is given back. Not after start().
    LaneTotals run_once(Duration patience);

    [[nodiscard]] LaneTotals totals() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace deliverd::lane
