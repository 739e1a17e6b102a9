// Makes a producer's librdkafka configuration from the sink's options. Connects to nothing.
#pragma once

#include "deliverd/result.h"
#include "sink/kafka/conf.h"
#include "sink/kafka/kafka_options.h"

namespace deliverd::sink {

/// How a producer fills its requests.
enum class Batching {
    many,     // as configured
    one_each  // each message alone in its batch, so that a refusal is about this message
};

/// Refuses what check_kafka_options() refuses, except what librdkafka finds only when it starts.
[[nodiscard]] Result<Conf> make_conf(const KafkaSinkOptions& options, Batching batching);

}  // namespace deliverd::sink
