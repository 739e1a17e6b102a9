// The dead-letter manager with what it needs of the database and of Kafka, built from the configuration.
#pragma once

#include <memory>

#include "app/config.h"
#include "base/clock.h"
#include "base/log.h"
#include "deadletter/manager.h"
#include "deadletter/ports.h"
#include "deliverd/result.h"
#include "store/database.h"
#include "store/dead_letters.h"

namespace deliverd::app {

/// Of `config` what the manager goes by.
[[nodiscard]] deadletter::ManagerOptions manager_options(const DeadLettersConfig& config);

/// Publishes to the configured brokers; null where there are none. Connects by itself, also later.
[[nodiscard]] Result<std::unique_ptr<deadletter::Replayer>> open_replayer(const DeadLettersConfig& config, Log& log);

/// What becomes of a retry of a whole topic that close() interrupts: another process resumes it, or it is over.
enum class WhenStopped { leave_redrives, end_redrives };

class DeadLetterUnit {
public:
    /// `database`, `spools` and `log` outlive it.
    static Result<std::unique_ptr<DeadLetterUnit>> make(const DeadLettersConfig& config, store::Database& database,
                                                        deadletter::Spools* spools, Log& log,
                                                        WhenStopped when_stopped = WhenStopped::leave_redrives);

    DeadLetterUnit(const deadletter::ManagerOptions& options, std::unique_ptr<store::DeadLetters> letters,
                   std::unique_ptr<deadletter::Replayer> replayer, deadletter::Spools* spools, Log& log);

    [[nodiscard]] store::DeadLetters& letters() { return *letters_; }
    [[nodiscard]] deadletter::Manager& manager() { return manager_; }

    /// Nothing more is begun from now on. Waits for nobody.
    void close() { manager_.close(); }
    /// close(); what is being published ends, confirmed or in doubt: by itself until `patience` has passed, then at
    /// once. Blocks for `patience` at most; who called the manager may still be in it. Idempotent.
    void stop(Duration patience);
    /// Makes a stop() under way wait for no broker. Safe from any thread.
    void hurry();

private:
    std::unique_ptr<store::DeadLetters> letters_;
    std::unique_ptr<deadletter::Replayer> replayer_;  // may be null
    deadletter::Manager manager_;
};

}  // namespace deliverd::app
