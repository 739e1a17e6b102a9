// Runs the lane's own stages against a simulated database, receiver and clock, with faults, from one random seed.
//
// Nothing in it waits: simulated time advances when no stage has work. A run is a sequence of small steps (a stage of
// some worker, an answer that arrives, a crash, …) chosen by the seed, so the same seed repeats a run exactly. After
// the faults have ended, every row must become sent or dead, and the run is checked against deliverd's promises.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace deliverd::simulation {

/// Probabilities per opportunity: a scheduling step, a database call or a send.
struct Faults {
    double crash = 0;           // a worker dies between two steps; another one replaces it
    double crash_in_call = 0;   // … just before or just after a database call takes effect
    double pause = 0;           // a worker does nothing for longer than a lease
    double call_fails = 0;      // a database call fails before it takes effect
    double answer_lost = 0;     // … after it takes effect
    double slow_call = 0;       // … takes up to a lease
    double late_answer = 0;     // … is answered long after it takes effect; the other stages continue
    double settle_refused = 0;  // a settle is refused permanently and has no effect
    double row_busy = 0;        // someone else has the row locked while it is settled
    double drain = 0;           // a worker is asked to stop; another one then replaces it
    double clock_jump = 0;      // the database's clock jumps forward or back
    double send_fails = 0;      // retryable
    double send_refused = 0;    // permanent
    double send_limited = 0;    // the receiver asks for fewer requests, mostly with a Retry-After
    double send_ambiguous = 0;  // no answer; the receiver may have it
    double slow_send = 0;       // takes up to three leases

    [[nodiscard]] static Faults none() { return {}; }
    [[nodiscard]] static Faults from_seed(std::uint64_t seed);
};

struct Report {
    std::uint64_t seed = 0;
    std::vector<std::string> violations;  // empty: every promise was kept
    std::uint64_t trace = 0;              // digest of every step: equal seeds give equal traces
    std::uint64_t rows = 0;
    std::uint64_t sends = 0;
    std::uint64_t repeated_deliveries = 0;  // of messages that the receiver had already taken
    std::uint64_t crashes = 0;
    std::uint64_t database_faults = 0;
    std::uint64_t conflicts = 0;
    std::uint64_t renewals = 0;
    std::uint64_t drains = 0;
    std::uint64_t rescued = 0;  // rows freed by RowQueue::rescue
    std::uint64_t pauses = 0;   // a receiver told a lane with a throttle to wait
    std::uint64_t late_answers = 0;
    std::uint64_t claimed_again = 0;  // rows that a worker claimed while it still had an earlier copy
};

[[nodiscard]] Report simulate(std::uint64_t seed, const Faults& faults);

}  // namespace deliverd::simulation
