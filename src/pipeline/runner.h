// What the program does with a lane, whichever engine runs it.
#pragma once

#include <cstdint>

#include "base/clock.h"

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

/// A hurried stop has this long to record what has ended and to give back what was not sent.
inline constexpr Duration kHurriedGrace = std::chrono::seconds(1);

class Runner {
public:
    virtual ~Runner() = default;

    /// Starts the threads. Returns at once.
    virtual void start() = 0;

    /// Takes and sends nothing more from here on; returns at once. stop() does the rest.
    virtual void drain() = 0;

    /// Takes and sends nothing more, waits up to `patience` for what is at the sink, settles it, gives back what was
    /// not sent, and joins the threads. Counts what was not finished as abandoned. Idempotent.
    virtual void stop(Duration patience) = 0;

    /// A stop() under way, or a later one, no longer waits for the sink: it ends within kHurriedGrace plus what the
    /// store's own limits let its last calls take. Safe from any thread.
    virtual void hurry() = 0;

    /// Processes one batch while the caller waits, for as long as the limits of the sink and the store allow; after
    /// drain() for `patience` only. A receiver that asks for a pause ends it. Not after start().
    virtual LaneTotals run_once(Duration patience) = 0;

    [[nodiscard]] virtual LaneTotals totals() const = 0;
};

}  // namespace deliverd::pipeline
