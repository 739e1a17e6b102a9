#include "daemon/dead_letter_unit.h"

#include <fmt/format.h>

#include <utility>

#include "base/try.h"
#include "base/uuid.h"
#include "config/dead_letters.h"

namespace deliverd::daemon {

deadletter::ManagerOptions manager_options(const config::DeadLettersConfig& config) {
    deadletter::ManagerOptions options;
    options.dead_letter_pattern = config.kafka.topic_pattern;
    options.replay_topics = config.kafka.replay_topics;
    options.retry_lease = config.retry_lease;
    options.publish_at_most = config::kLongestPublishTimeouts * config.replay_timeout;
    return options;
}

Result<std::unique_ptr<deadletter::Replayer>> open_replayer(const config::DeadLettersConfig& config, Log& log) {
    if (config.kafka.brokers.empty()) return nullptr;
    auto replayer = deadletter::make_replayer(config::replayer_options(config), log);
    if (!replayer) {
        return tl::unexpected(Error{replayer.error().error_class, replayer.error().code,
                                    fmt::format("kafka: {}", replayer.error().message)});
    }
    return replayer;
}

Result<std::unique_ptr<DeadLetterUnit>> DeadLetterUnit::make(const config::DeadLettersConfig& config,
                                                             store::Database& database, deadletter::Spools* spools,
                                                             Log& log, WhenStopped when_stopped) {
    TRY_ASSIGN(auto replayer, open_replayer(config, log));
    deadletter::ManagerOptions options = manager_options(config);
    options.close_ends_redrives = when_stopped == WhenStopped::end_redrives;
    return std::make_unique<DeadLetterUnit>(options, database.dead_letters(), std::move(replayer), spools, log);
}

DeadLetterUnit::DeadLetterUnit(const deadletter::ManagerOptions& options, std::unique_ptr<store::DeadLetters> letters,
                               std::unique_ptr<deadletter::Replayer> replayer, deadletter::Spools* spools, Log& log)
    : letters_(std::move(letters)),
      replayer_(std::move(replayer)),
      manager_(options, *letters_, replayer_.get(), log, uuid_source(), spools) {}

void DeadLetterUnit::stop(Duration patience) {
    if (patience == Duration::zero()) hurry();
    manager_.stop(patience);
    hurry();
}

void DeadLetterUnit::hurry() {
    if (replayer_) replayer_->stop();
}

}  // namespace deliverd::daemon
