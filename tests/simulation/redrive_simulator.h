// Runs retries and redrives of several processes against a simulated broker and a real SQLite store, with outages,
// deaths, lost answers and stops, from one random seed. Nothing in it waits or has a thread: the simulator runs the
// steps of each redrive (RedriveRun::read_step() and the others) in an order that the seed chooses.
//
// After the faults have ended, every redrive must finish, and the run is checked against the promises of dead letters:
//   - no letter is lost: each is published in the end, or was refused because of its content;
//   - a letter arrives twice only if its retry began in doubt, and is published only while its lease is valid;
//   - a redrive that was resumed and completes has tried each letter that it could;
//   - a redrive's counts are those that were recorded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "redrive_world.h"

namespace deliverd::simulation {

struct RedriveSimReport {
    std::uint64_t seed = 0;
    std::vector<std::string> violations;  // empty: every promise was kept
    std::uint64_t trace = 0;              // digest of every step: equal seeds give equal traces
    std::uint64_t arrived = 0;
    std::uint64_t repeated = 0;
    std::uint64_t deaths = 0;
    std::uint64_t outages = 0;
    std::uint64_t lost_answers = 0;
    std::uint64_t resumed = 0;   // redrives that another process had begun
    std::uint64_t complete = 0;  // redrives that tried everything
    std::uint64_t stopped = 0;
    std::uint64_t singles = 0;
};

[[nodiscard]] RedriveFaults redrive_faults(std::uint64_t seed);

[[nodiscard]] RedriveSimReport simulate_redrives(RedriveStore& store, std::uint64_t seed, const RedriveFaults& faults,
                                                 RedriveSabotage sabotage = RedriveSabotage::none);

}  // namespace deliverd::simulation
