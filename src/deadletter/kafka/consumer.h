// RAII over the part of librdkafka's C API that a consumer uses.
#pragma once

#include <librdkafka/rdkafka.h>

#include <memory>
#include <span>

#include "deadletter/kafka/positions.h"
#include "message/record.h"

namespace deliverd::deadletter {

struct QueueDeleter {
    void operator()(rd_kafka_queue_t* queue) const { rd_kafka_queue_destroy(queue); }
};
using Queue = std::unique_ptr<rd_kafka_queue_t, QueueDeleter>;

struct EventDeleter {
    void operator()(rd_kafka_event_t* event) const { rd_kafka_event_destroy(event); }
};
using Event = std::unique_ptr<rd_kafka_event_t, EventDeleter>;

struct MessageDeleter {
    void operator()(rd_kafka_message_t* message) const { rd_kafka_message_destroy(message); }
};
using ConsumedMessage = std::unique_ptr<rd_kafka_message_t, MessageDeleter>;

struct PartitionsDeleter {
    void operator()(rd_kafka_topic_partition_list_t* list) const { rd_kafka_topic_partition_list_destroy(list); }
};
using Partitions = std::unique_ptr<rd_kafka_topic_partition_list_t, PartitionsDeleter>;

[[nodiscard]] Partitions partitions_of(std::span<const Place> places);

/// A copy of a message that has no error.
[[nodiscard]] Record record_of(const rd_kafka_message_t& message);

}  // namespace deliverd::deadletter
