// The dead-letter manager: what the API and the command line ask for. Decides; the store and the replayer act.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "deadletter/ports.h"
#include "store/dead_letters.h"

namespace deliverd::deadletter {

/// How a retry ended, as the API tells it.
enum class RetryAnswer {
    resolved,      // published and acknowledged, back in its lane, or (without Kafka in the configuration) as the seed has it
    not_found,
    conflict,      // not retryable, refused, or somebody else's retry: `message` says which
    not_published, // certainly not: it can be retried
    in_doubt,      // may have been published; RETRYING
};

struct RetryReport {
    RetryAnswer answer = RetryAnswer::not_found;
    std::string message;  // one line for people
    std::optional<store::Letter> letter{};
};

struct RedriveReport {
    store::Redrive redrive;
    bool under_way_elsewhere = false;  // nothing was done here
    std::string problem{};             // it stopped early: why. What is left can be retried
};

struct ManagerOptions {
    bool stand_alone = false;  // no `kafka` in the configuration: a retry resolves without publishing
    Duration retry_lease = std::chrono::seconds(30);  // beyond what publishing takes at most
    std::int32_t page = 100;
    std::int32_t pages_in_flight = 8;
};

/// Thread-safe. `replayer` may be null: letters from Kafka then cannot be sent (unless stand_alone).
class Manager {
public:
    Manager(ManagerOptions options, store::DeadLetters& letters, Replayer* replayer, Log& log);

    RetryReport retry(std::string_view id, std::string_view actor);
    /// Blocks until all of the topic that was there at the beginning was tried, or stop().
    Result<RedriveReport> retry_all(std::string_view topic, std::string_view actor);
    /// Takes up what processes that died left unfinished. For a chore.
    Result<std::int64_t> resume_abandoned();
    void stop();
};

}  // namespace deliverd::deadletter
