// A consumer's librdkafka configuration, from the source's options. Connects to nothing.
#pragma once

#include "deadletter/kafka/record_source_options.h"
#include "sink/kafka/client.h"

namespace deliverd::deadletter {

inline constexpr std::size_t kMaxFetchBytes = 8U << 20U;  // per answer; a single record may be larger

/// Refuses what check_record_source_options() refuses, except what librdkafka finds only when it starts.
[[nodiscard]] Result<sink::Conf> make_consumer_conf(const RecordSourceOptions& options);

}  // namespace deliverd::deadletter
