// What the settings say about Kafka and dead letters.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "app/config.h"
#include "app/config_values.h"
#include "deadletter/kafka/record_source.h"
#include "deadletter/kafka/replayer.h"

namespace deliverd::app {

/// Publishing takes so many times `replay_timeout` at most (deadletter/kafka/replayer.h).
inline constexpr int kLongestPublishTimeouts = 3;

/// librdkafka's settings for whatever speaks to Kafka: the security keys of `kafka`, then `kafka.librdkafka`.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> kafka_client_settings(const Values& values);

/// The file that the `sasl.password` of `settings`, which begin with the above, is from. Empty where it is from none,
/// and where librdkafka's own settings name another one.
[[nodiscard]] std::string kafka_password_file(const Values& values,
                                              const std::vector<std::pair<std::string, std::string>>& settings);

/// How the configured brokers are read and written; only with brokers.
[[nodiscard]] deadletter::RecordSourceOptions record_source_options(const KafkaConfig& kafka);
[[nodiscard]] deadletter::ReplayerOptions replayer_options(const DeadLettersConfig& config);

[[nodiscard]] DeadLettersConfig make_dead_letters(const Values& values, std::vector<Problem>& problems);

}  // namespace deliverd::app
