// What `deliverd doctor` asks the brokers about the dead-letter topics. Joins no group and changes nothing.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "deadletter/kafka/record_source.h"

namespace deliverd::deadletter {

struct KafkaInspection {
    int brokers = 0;
    std::vector<std::string> topics{};      // match the pattern and can be described; sorted
    std::vector<std::string> unreadable{};  // match, but: "orders.dlq.v1: why"
    std::string group_problem{};  // why the group's offsets cannot be read; empty: they can, or there is no topic
};

/// Blocks for three times `deadline` at most. Failure: the settings are refused, or no broker answers; the message has
/// librdkafka's reason, without any secret.
[[nodiscard]] Result<KafkaInspection> inspect_kafka(const RecordSourceOptions& options, Duration deadline);

}  // namespace deliverd::deadletter
