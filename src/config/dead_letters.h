// How dead letters are read from Kafka and sent back, from the configuration.
#pragma once

#include "config/config.h"
#include "deadletter/kafka/record_source.h"
#include "deadletter/kafka/replayer.h"

namespace deliverd::config {

/// The longest publish, in multiples of `replay_timeout` (deadletter/kafka/replayer.h).
inline constexpr int kLongestPublishTimeouts = 3;

/// How the configured brokers are read and written; only with brokers.
[[nodiscard]] deadletter::RecordSourceOptions record_source_options(const KafkaConfig& kafka);
[[nodiscard]] deadletter::ReplayerOptions replayer_options(const DeadLettersConfig& config);

}  // namespace deliverd::config
