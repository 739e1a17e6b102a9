#include "deadletter/kafka/consumer.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/try.h"
#include "deadletter/topic_pattern.h"

namespace deliverd::deadletter {

namespace {

using sink::RefusedSetting;

constexpr std::size_t kLeastPrefetchBytes = 1U << 20U;
constexpr std::size_t kMostPrefetchBytes = 1U << 30U;

constexpr std::string_view kCommitted = "offsets are committed when their records are stored";
constexpr std::string_view kGroup = "set kafka.consumer_group instead";

constexpr std::array kRefused{
    RefusedSetting{"group.id", kGroup},
    RefusedSetting{"group.instance.id", "members of the group come and go"},
    RefusedSetting{"group.protocol.type", "the group is one of consumers"},
    RefusedSetting{"partition.assignment.strategy", "all members of the group must use the same one"},
    RefusedSetting{"enable.auto.commit", kCommitted},
    RefusedSetting{"auto.commit.enable", kCommitted},
    RefusedSetting{"auto.commit.interval.ms", kCommitted},
    RefusedSetting{"enable.auto.offset.store", kCommitted},
    RefusedSetting{"offset.store.method", kCommitted},
    RefusedSetting{"offset.store.path", kCommitted},
    RefusedSetting{"auto.offset.reset", "every dead letter is read"},
    RefusedSetting{"enable.partition.eof", "a topic never ends"},
};

sink::KafkaSettings own_settings(const RecordSourceOptions& options) {
    const auto prefetch = std::clamp(options.prefetch_bytes, kLeastPrefetchBytes, kMostPrefetchBytes);
    return {
        {"group.id", options.group},
        // record_source.h says why not another one.
        {"partition.assignment.strategy", "roundrobin"},
        // Only what is stored may be committed: a crash in between would lose what librdkafka committed by itself.
        {"enable.auto.commit", "false"},
        {"enable.auto.offset.store", "false"},
        {"auto.offset.reset", "earliest"},
        // How soon a new topic is found.
        {"topic.metadata.refresh.interval.ms", "5000"},
        // Kafka's own topics, which a pattern may match too.
        {"topic.blacklist", "^__"},
        // How soon the others get a dead member's partitions. librdkafka sends the heartbeats, not poll().
        {"session.timeout.ms", "10000"},
        // How much is read ahead, over all partitions, and how much one answer brings. A record larger than either
        // comes alone (Kafka 0.10.1), up to receive.message.max.bytes (100 MB).
        {"queued.max.messages.kbytes", std::to_string(prefetch / 1024)},
        {"fetch.max.bytes", std::to_string(std::min(prefetch, kMaxFetchBytes))},
        {"fetch.message.max.bytes", std::to_string(std::min(prefetch, kMaxFetchBytes) / 4)},
        {"check.crcs", "true"},
    };
}

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

Result<sink::Conf> make_consumer_conf(const RecordSourceOptions& options) {
    TRY(check_topic_pattern(options.topic_pattern));
    if (options.group.empty()) {
        return bad_argument("the group that reads the dead-letter topics has no name: set one");
    }
    return sink::client_conf(RD_KAFKA_CONSUMER, options, own_settings(options), kRefused);
}

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
