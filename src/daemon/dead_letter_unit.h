// The dead-letter manager with what it needs of the database and of Kafka, built from the configuration.
#pragma once

#include <memory>

#include "base/clock.h"
#include "base/log.h"
#include "config/config.h"
#include "deadletter/manager.h"
#include "deadletter/ports.h"
#include "deliverd/result.h"
#include "store/database.h"
#include "store/dead_letters.h"

namespace deliverd::daemon {

/// The manager's options, taken from `config`.
[[nodiscard]] deadletter::ManagerOptions manager_options(const config::DeadLettersConfig& config);

/// Publishes to the configured brokers; null when there are none. Connects by itself, also later.
[[nodiscard]] Result<std::unique_ptr<deadletter::Replayer>> open_replayer(const config::DeadLettersConfig& config,
                                                                          Log& log);

/// What happens to a redrive that close() interrupts: another process resumes it, or it ends for good.
enum class WhenStopped { leave_redrives, end_redrives };

class DeadLetterUnit {
public:
    /// `database`, `spools` and `log` outlive it.
    static Result<std::unique_ptr<DeadLetterUnit>> make(const config::DeadLettersConfig& config,
                                                        store::Database& database, deadletter::Spools* spools, Log& log,
                                                        WhenStopped when_stopped = WhenStopped::leave_redrives);

    DeadLetterUnit(const deadletter::ManagerOptions& options, std::unique_ptr<store::DeadLetters> letters,
                   std::unique_ptr<deadletter::Replayer> replayer, deadletter::Spools* spools, Log& log);

    [[nodiscard]] store::DeadLetters& letters() { return *letters_; }
    [[nodiscard]] deadletter::Manager& manager() { return manager_; }

    /// No retry begins from now on. Does not block.
    void close() { manager_.close(); }
    /// close(); what is being published ends, confirmed or in doubt: by itself within `patience`, at once afterwards.
    /// Blocks for `patience` at most; callers of the manager may then still be in it. Idempotent.
    void stop(Duration patience);
    /// A stop() under way no longer waits for a broker. Safe from any thread.
    void hurry();

private:
    std::unique_ptr<store::DeadLetters> letters_;
    std::unique_ptr<deadletter::Replayer> replayer_;  // may be null
    deadletter::Manager manager_;
};

}  // namespace deliverd::daemon
