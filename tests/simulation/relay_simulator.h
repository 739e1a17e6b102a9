// Runs the relay's core against a simulated event table, receiver and clock, with faults, from one seed.
//
// Nothing in it waits: time moves from one event to the next (a writer commits, a database call takes effect, its
// answer arrives, a message reaches the receiver, a relay dies, …), and all are drawn from the seed, so that a seed
// replays a run exactly. After the faults have ended everything must come to rest, and the run is checked against what
// deliverd promises.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace deliverd::simulation {

/// Chances are per opportunity: a call of the database, a send, or a tenth of a second of a relay's life.
struct RelayFaults {
    double crash = 0;           // a relay vanishes; what it sent still arrives; another takes its place
    double pause = 0;           // a relay does nothing for longer than its lease
    double join = 0;            // one more relay
    double drain = 0;           // one relay fewer, in good order
    double call_fails = 0;      // a database call fails before it did anything
    double answer_lost = 0;     // … took effect, or will in a moment, and nobody knows
    double slow_call = 0;       // … takes up to two leases
    double send_fails = 0;      // retryable
    double send_refused = 0;    // permanent
    double send_ambiguous = 0;  // no answer; the receiver may have it, or get it later
    double send_not_tried = 0;  // nothing can be sent for a while
    double topic_away = 0;      // nothing can be sent to that topic for a while, by any relay
    double dead_returned = 0;   // a dead event is put back into its lane
    bool full_hands = false;    // relays may have little in hand, and transactions stay open for a while: always
    bool topic_gone = false;    // one topic takes nothing while there are faults, and the others must not notice
    bool part_gone = false;     // some aggregates of one topic do, as if a partition had no leader
    bool one_topic = false;     // all events are of the topic of which a part is gone
    double slow_send = 0;       // takes up to three leases

    [[nodiscard]] static RelayFaults from_seed(std::uint64_t seed);
    /// None but failing sends: nothing may arrive twice.
    [[nodiscard]] static RelayFaults of_sends();
    /// Failing sends, and events that become visible late while hands are full.
    [[nodiscard]] static RelayFaults of_full_hands();
    /// Nothing but one topic that is gone.
    [[nodiscard]] static RelayFaults of_a_topic();
    /// Nothing but a part of a topic that is gone, beside others or alone.
    [[nodiscard]] static RelayFaults of_a_part(bool one_topic);
};

struct RelayReport {
    std::uint64_t seed = 0;
    std::vector<std::string> violations;  // empty: every promise was kept
    std::uint64_t trace = 0;              // digest of every step: equal seeds give equal traces
    std::uint64_t events = 0;
    std::uint64_t looks = 0;      // that were answered
    std::uint64_t rows_read = 0;  // by them
    std::uint64_t sends = 0;
    std::uint64_t repeated = 0;  // arrivals of what had arrived before
    std::uint64_t dead = 0;
    std::uint64_t retried = 0;
    std::uint64_t crashes = 0;
    std::uint64_t pauses = 0;
    std::uint64_t fenced = 0;
    std::uint64_t released = 0;  // shards given back
    std::uint64_t put_off = 0;
    std::uint64_t topic_away = 0;  // sends to a topic that was away
    std::uint64_t returned = 0;    // dead events
    std::uint64_t late_rows = 0;   // committed long after their id was given
    std::uint64_t overtaken = 0;   // committed after a higher id of the same aggregate
    bool strict_order = false;
};

/// A store or a relay that breaks its promise, to see that the simulator notices.
struct RelaySabotage {
    bool without_fence = false;
    bool hides_writers = false;
};

[[nodiscard]] RelayReport simulate_relays(std::uint64_t seed, const RelayFaults& faults,
                                          const RelaySabotage& sabotage = {});

}  // namespace deliverd::simulation
