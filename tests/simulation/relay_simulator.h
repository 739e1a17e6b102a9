// Runs the relay's core against a simulated event table, receiver and clock, with faults, from one random seed.
//
// Nothing in it waits: simulated time advances from one occurrence to the next (a writer commits, a database call takes
// effect, its answer arrives, a message reaches the receiver, a relay dies, …). The seed chooses all of them, so the
// same seed repeats a run exactly. After the faults have ended, every event must be published or dead, and the run is
// checked against deliverd's promises.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace deliverd::simulation {

/// Probabilities per opportunity: a database call, a send, or a tenth of a second of a relay's life.
struct RelayFaults {
    double crash = 0;           // a relay dies; what it sent still arrives; another one replaces it
    double pause = 0;           // a relay does nothing for longer than its lease
    double join = 0;            // one more relay
    double drain = 0;           // one relay fewer; it stops properly
    double call_fails = 0;      // a database call fails before it takes effect
    double answer_lost = 0;     // … takes effect, now or in a moment, but its answer is lost
    double slow_call = 0;       // … takes up to two leases
    double send_fails = 0;      // retryable
    double send_refused = 0;    // permanent
    double send_ambiguous = 0;  // no answer; the receiver may have it, or get it later
    double send_not_tried = 0;  // nothing can be sent for a while
    double topic_away = 0;      // nothing can be sent to that topic for a while, by any relay
    double dead_returned = 0;   // a dead event is put back into its lane
    bool full_hands = false;    // always: relays may hold few events, and transactions stay open for a while
    bool topic_gone = false;    // one topic accepts nothing during the faults; the others must not be affected
    bool part_gone = false;     // the same for some aggregates of a topic, as if a partition had no leader
    bool one_topic = false;     // all events have the topic of which a part is unavailable
    double slow_send = 0;       // takes up to three leases

    [[nodiscard]] static RelayFaults from_seed(std::uint64_t seed);
    /// Only failing sends: nothing may arrive twice.
    [[nodiscard]] static RelayFaults of_sends();
    /// Failing sends, and events that become visible late while relays hold as many events as they may.
    [[nodiscard]] static RelayFaults of_full_hands();
    /// Only one topic that is unavailable.
    [[nodiscard]] static RelayFaults of_a_topic();
    /// Only a part of a topic that is unavailable, with or without other topics.
    [[nodiscard]] static RelayFaults of_a_part(bool one_topic);
};

struct RelayReport {
    std::uint64_t seed = 0;
    std::vector<std::string> violations;  // empty: every promise was kept
    std::uint64_t trace = 0;              // digest of every step: equal seeds give equal traces
    std::uint64_t events = 0;
    std::uint64_t polls = 0;      // that were answered
    std::uint64_t rows_read = 0;  // by them
    std::uint64_t sends = 0;
    std::uint64_t repeated = 0;  // events that arrived again
    std::uint64_t dead = 0;
    std::uint64_t retried = 0;
    std::uint64_t crashes = 0;
    std::uint64_t pauses = 0;
    std::uint64_t fenced = 0;
    std::uint64_t released = 0;  // shards given back
    std::uint64_t put_off = 0;
    std::uint64_t topic_away = 0;  // sends to an unavailable topic
    std::uint64_t returned = 0;    // dead events put back
    std::uint64_t late_rows = 0;   // committed long after their id was assigned
    std::uint64_t overtaken = 0;   // committed after a higher id of the same aggregate
    bool strict_order = false;
};

/// A store or a relay that breaks a promise, to test that the simulator notices.
struct RelaySabotage {
    bool without_fence = false;
    bool hides_writers = false;
};

[[nodiscard]] RelayReport simulate_relays(std::uint64_t seed, const RelayFaults& faults,
                                          const RelaySabotage& sabotage = {});

}  // namespace deliverd::simulation
