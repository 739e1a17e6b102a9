// Publishes dead letters to the topics they came from (librdkafka's C API, idempotent, acks=all), byte for byte: a null
// key, value or header stays null, an empty one empty, headers keep their order.
//
// The key decides the partition as in Java's producers (murmur2); a record without a key goes to any partition.
// Outcomes are the Kafka sink's (sink/kafka/kafka_sink.h). All calls of publish() share one producer, and together have
// at most kWindowRecords and kWindowBytes under way (one record alone may be larger). The others wait up to `timeout`
// for room, and are then retryable and not_attempted (QUEUE_FULL). So a call ends within three times `timeout`: for
// room, in librdkafka, and once more alone when Kafka refused a whole batch for its size.
#pragma once

#include <cstddef>
#include <memory>

#include "base/log.h"
#include "deadletter/ports.h"
#include "sink/kafka/kafka_options.h"

namespace deliverd::deadletter {

inline constexpr std::size_t kWindowRecords = 10'000;
inline constexpr std::size_t kWindowBytes = 32U << 20U;

/// Settings in `librdkafka` override the sink's, and here also `partitioner` murmur2_random and `message.max.bytes`
/// 64 MiB.
struct ReplayerOptions : sink::KafkaClientOptions {
    Duration timeout = std::chrono::seconds(5);  // per record, in librdkafka's queue and on its way
    Duration linger = std::chrono::milliseconds(1);
};

/// The check of make_replayer(), for a configuration; like check_kafka_options().
[[nodiscard]] Result<void> check_replayer_options(const ReplayerOptions& options);

/// Connects by itself. `log` outlives it.
[[nodiscard]] Result<std::unique_ptr<Replayer>> make_replayer(const ReplayerOptions& options, Log& log);

}  // namespace deliverd::deadletter
