// Runs the lane's own stages against a simulated database, receiver and clock, with faults, from one seed.
//
// Nothing in it waits: time moves when nobody has anything to do. A run is a sequence of small steps (a stage
// of some worker, an answer arriving, a crash, …) chosen by the seed, so that a seed replays a run exactly.
// After the faults have ended, every row must come to rest, and the run is checked against what deliverd
// promises.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace deliverd::simulation {

/// Chances are per opportunity: a scheduling step, a database call or a send.
struct Faults {
    double crash = 0;           // a worker dies between two steps; another takes its place
    double crash_in_call = 0;   // … right before or right after a database call took effect
    double pause = 0;           // a worker does nothing for longer than a lease
    double call_fails = 0;      // a database call fails before it did anything
    double answer_lost = 0;     // … after it took effect
    double slow_call = 0;       // … takes up to a lease
    double late_answer = 0;     // … is answered long after it took effect, and the other stages continue
    double settle_refused = 0;  // a settle is refused for good, and nothing is done
    double row_busy = 0;        // someone else has the row locked while it is settled
    double drain = 0;           // a worker is asked to stop; another takes its place when it has
    double clock_jump = 0;      // the database's clock jumps either way
    double send_fails = 0;      // retryable
    double send_refused = 0;    // permanent
    double send_limited = 0;    // the receiver asks for less, mostly saying for how long
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
    std::uint64_t repeated_deliveries = 0;  // by a message id the receiver had already taken
    std::uint64_t crashes = 0;
    std::uint64_t database_faults = 0;
    std::uint64_t conflicts = 0;
    std::uint64_t renewals = 0;
    std::uint64_t drains = 0;
    std::uint64_t rescued = 0;  // rows freed by RowQueue::rescue
    std::uint64_t pauses = 0;   // a lane with a throttle was told to wait
    std::uint64_t late_answers = 0;
    std::uint64_t claimed_again = 0;  // rows that a worker claimed while it had not done with its earlier copy
};

[[nodiscard]] Report simulate(std::uint64_t seed, const Faults& faults);

}  // namespace deliverd::simulation
