// The options of the reader of the dead-letter topics.
#pragma once

#include <cstddef>
#include <string>

#include "sink/kafka/kafka_options.h"

namespace deliverd::deadletter {

struct RecordSourceOptions : sink::KafkaClientOptions {
    std::string group = "dlq-manager.default";
    std::string topic_pattern = "*.dlq.v1";   // `*` and `?`; everything else is literal
    std::size_t prefetch_bytes = 16U << 20U;  // read ahead and not given yet
};

}  // namespace deliverd::deadletter
