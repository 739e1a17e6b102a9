// What a doctor asks of the brokers before the dead-letter topics are read. Joins no group and changes nothing.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "deadletter/kafka/record_source.h"

namespace deliverd::deadletter {

struct KafkaInspection {
    int brokers = 0;
    std::vector<std::string> topics;      // that match the pattern and can be described, in order
    std::vector<std::string> unreadable;  // "orders.dlq.v1: why", of those that match
    std::string group_problem;  // why the group's offsets cannot be read; empty: they can, or there is no topic
};

/// Blocks for three times `deadline` at most. Failure: the settings are refused, or no broker answers; what librdkafka
/// says about that stands in the message, without any secret.
[[nodiscard]] Result<KafkaInspection> inspect_kafka(const RecordSourceOptions& options, Duration deadline);

}  // namespace deliverd::deadletter
