#include "daemon/dead_letter_unit.h"

#include <utility>

#include "config/dead_letters.h"
#include "daemon/parts.h"

namespace deliverd::daemon {

Result<std::unique_ptr<DeadLetterUnit>> DeadLetterUnit::make(const config::DeadLettersConfig& config,
                                                             store::Database& database, deadletter::Spools* spools,
                                                             Log& log, WhenStopped when_stopped) {
    std::unique_ptr<deadletter::Replayer> replayer;
    if (!config.kafka.brokers.empty()) {
        auto made = deadletter::make_replayer(config::replayer_options(config), log);
        if (!made) return failure_of("kafka", made.error());
        replayer = std::move(*made);
    }
    deadletter::ManagerOptions options;
    options.dead_letter_pattern = config.kafka.topic_pattern;
    options.replay_topics = config.kafka.replay_topics;
    options.retry_lease = config.retry_lease;
    options.publish_at_most = config::kLongestPublishTimeouts * config.replay_timeout;
    options.close_ends_redrives = when_stopped == WhenStopped::end_redrives;
    return std::unique_ptr<DeadLetterUnit>(
        new DeadLetterUnit(options, database.dead_letters(), std::move(replayer), spools, log));
}

void DeadLetterUnit::stop(Duration patience) {
    // Before the manager waits: without patience, a publish under way must not be waited for at all.
    if (patience == Duration::zero()) hurry();
    manager_.stop(patience);
    hurry();
}

void DeadLetterUnit::hurry() {
    if (replayer_) replayer_->stop();
}

}  // namespace deliverd::daemon
