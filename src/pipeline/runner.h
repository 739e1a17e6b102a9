// What the program does with a lane, whichever way it works: claiming rows (lane.h) or relaying events in order
// (relay/relay.h).
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace deliverd::pipeline {

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

class Runner {
public:
    virtual ~Runner() = default;

    /// Starts the threads. Returns at once.
    virtual void start() = 0;

    /// Takes and sends nothing more from here on; returns at once. stop() does the rest.
    virtual void drain() = 0;

    /// Takes nothing more, sends nothing more, waits up to `patience` for what is at the sink, settles it, gives back
    /// what is not done, joins the threads. What was not finished is counted as abandoned. Idempotent.
    virtual void stop(Duration patience) = 0;

    /// Makes a stop() under way (or to come) wait for the sink no longer: it ends within kHurriedGrace and what the
    /// store's own limits let its last calls take. Safe from any thread.
    virtual void hurry() = 0;

    /// One batch on the calling thread's watch. Takes as long as the sink's and the store's own limits let it; after
    /// drain() only `patience`. A receiver that asks for a pause ends it. Not after start().
    virtual LaneTotals run_once(Duration patience) = 0;

    [[nodiscard]] virtual LaneTotals totals() const = 0;
};

}  // namespace deliverd::pipeline
