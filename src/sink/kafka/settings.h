// librdkafka's configuration of a producer, out of the sink's options. Connects to nothing.
#pragma once

#include "deliverd/result.h"
#include "sink/kafka/conf.h"
#include "sink/kafka/kafka_options.h"

namespace deliverd::sink {

/// How a producer fills its requests.
enum class Batching {
    many,     // as configured
    one_each  // each message alone in its batch: what is refused then is this message, not its neighbours
};

/// Refuses what check_kafka_options() refuses, but for what librdkafka finds only when it starts.
[[nodiscard]] Result<Conf> make_conf(const KafkaSinkOptions& options, Batching batching);

}  // namespace deliverd::sink
