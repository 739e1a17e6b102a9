#include "deadletter/kafka/consumer.h"

#include <string>

namespace deliverd::deadletter {

namespace {

/// Null is not the same as empty: a null value deletes the key of a compacted topic.
std::optional<std::string> bytes_at(const void* data, std::size_t size) {
    if (data == nullptr) return std::nullopt;
    return std::string(static_cast<const char*>(data), size);
}

void take_headers(const rd_kafka_message_t& message, std::vector<RecordHeader>& out) {
    rd_kafka_headers_t* headers = nullptr;  // the message owns them
    if (rd_kafka_message_headers(&message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR) return;
    const std::size_t count = rd_kafka_header_cnt(headers);
    out.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        const char* name = nullptr;
        const void* value = nullptr;
        std::size_t size = 0;
        if (rd_kafka_header_get_all(headers, i, &name, &value, &size) != RD_KAFKA_RESP_ERR_NO_ERROR) return;
        out.push_back({name, bytes_at(value, size)});
    }
}

}  // namespace

Partitions partitions_of(std::span<const Place> places) {
    Partitions list(rd_kafka_topic_partition_list_new(static_cast<int>(places.size())));
    for (const auto& place : places) {
        rd_kafka_topic_partition_list_add(list.get(), place.topic.c_str(), place.partition)->offset = place.offset;
    }
    return list;
}

Record record_of(const rd_kafka_message_t& message) {
    Record record;
    record.topic = rd_kafka_topic_name(message.rkt);
    record.partition = message.partition;
    record.offset = message.offset;
    record.key = bytes_at(message.key, message.key_len);
    record.value = bytes_at(message.payload, message.len);
    take_headers(message, record.headers);
    rd_kafka_timestamp_type_t type = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
    record.timestamp_ms = rd_kafka_message_timestamp(&message, &type);
    if (type == RD_KAFKA_TIMESTAMP_CREATE_TIME) record.timestamp_type = RecordTime::created;
    if (type == RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME) record.timestamp_type = RecordTime::appended;
    return record;
}

}  // namespace deliverd::deadletter
