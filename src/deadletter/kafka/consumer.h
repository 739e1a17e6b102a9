// What the reader of the dead-letter topics and doctor share: a consumer's configuration, and the part of librdkafka's
// C API that consumers use, with owners.
#pragma once

#include <librdkafka/rdkafka.h>

#include <cstddef>
#include <span>

#include "base/handle.h"
#include "deadletter/kafka/positions.h"
#include "deadletter/kafka/record_source_options.h"
#include "message/record.h"
#include "sink/kafka/client.h"

namespace deliverd::deadletter {

using Queue = Handle<rd_kafka_queue_t, rd_kafka_queue_destroy>;
using Event = Handle<rd_kafka_event_t, rd_kafka_event_destroy>;
using ConsumedMessage = Handle<rd_kafka_message_t, rd_kafka_message_destroy>;
using Partitions = Handle<rd_kafka_topic_partition_list_t, rd_kafka_topic_partition_list_destroy>;

inline void destroy_without_leaving(rd_kafka_t* kafka) {
    rd_kafka_destroy_flags(kafka, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}
/// Does not leave its group by itself: whoever joined one leaves it before, with a deadline.
using Consumer = Handle<rd_kafka_t, destroy_without_leaving>;

inline constexpr std::size_t kMaxFetchBytes = 8U << 20U;  // per answer; a single record may be larger

/// A consumer's configuration, from the source's options. Connects to nothing. Refuses what
/// check_record_source_options() refuses, except what librdkafka finds only when it starts.
[[nodiscard]] Result<sink::Conf> make_consumer_conf(const RecordSourceOptions& options);

[[nodiscard]] Partitions partitions_of(std::span<const Place> places);

[[nodiscard]] inline std::span<rd_kafka_topic_partition_t> entries(const rd_kafka_topic_partition_list_t& list) {
    return {list.elems, static_cast<std::size_t>(list.cnt)};
}

/// A copy of a message that has no error.
[[nodiscard]] Record record_of(const rd_kafka_message_t& message);

}  // namespace deliverd::deadletter
