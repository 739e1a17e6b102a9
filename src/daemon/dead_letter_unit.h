// The dead-letter manager with what it needs of the database and of Kafka, built from the configuration.
#pragma once

#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/uuid.h"
#include "config/config.h"
#include "deadletter/manager.h"
#include "deadletter/ports.h"
#include "deliverd/result.h"
#include "store/database.h"
#include "store/dead_letters.h"

namespace deliverd::daemon {

/// What happens to a redrive that Manager::close() interrupts: another process resumes it, or it ends for good.
enum class WhenStopped { leave_redrives, end_redrives };

class DeadLetterUnit {
public:
    /// Without brokers, letters of Kafka cannot be sent. Connects by itself, also later. `database`, `spools` and `log`
    /// outlive it.
    static Result<std::unique_ptr<DeadLetterUnit>> make(const config::DeadLettersConfig& config,
                                                        store::Database& database, deadletter::Spools* spools, Log& log,
                                                        WhenStopped when_stopped = WhenStopped::leave_redrives);

    [[nodiscard]] store::DeadLetters& letters() { return *letters_; }
    [[nodiscard]] deadletter::Manager& manager() { return manager_; }

    /// Begins no retry from now on. Waits up to `patience` for what is being published, then cuts it off: it ends in
    /// doubt. Callers of the manager may still be in it afterwards. Idempotent.
    void stop(Duration patience);
    /// A stop() under way no longer waits for a broker. Safe from any thread.
    void hurry();

private:
    DeadLetterUnit(const deadletter::ManagerOptions& options, std::unique_ptr<store::DeadLetters> letters,
                   std::unique_ptr<deadletter::Replayer> replayer, deadletter::Spools* spools, Log& log)
        : letters_(std::move(letters)),
          replayer_(std::move(replayer)),
          manager_(options, *letters_, replayer_.get(), log, uuid_source(), spools) {}

    std::unique_ptr<store::DeadLetters> letters_;
    std::unique_ptr<deadletter::Replayer> replayer_;  // may be null
    deadletter::Manager manager_;
};

}  // namespace deliverd::daemon
