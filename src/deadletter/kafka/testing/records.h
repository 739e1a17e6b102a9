// For tests: records put into topics by a client of the test's own, and read by sources until they are there.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "deadletter/kafka/record_source.h"
#include "deadletter/kafka/replayer.h"
#include "sink/kafka/testing/broker.h"
#include "sink/kafka/testing/events.h"

namespace deliverd::deadletter {

using namespace std::chrono_literals;

/// Each record to its topic and partition, exactly; those with a time of their own keep it.
inline void put(const std::string& brokers, const std::vector<Record>& records) {
    const auto client = sink::make_client(
        RD_KAFKA_PRODUCER, {{"bootstrap.servers", brokers}, {"linger.ms", "20"}, {"message.max.bytes", "10000000"}});
    for (const auto& record : records) {
        rd_kafka_headers_t* headers = rd_kafka_headers_new(record.headers.size());
        for (const auto& header : record.headers) {
            rd_kafka_header_add(headers, header.name.data(), static_cast<ssize_t>(header.name.size()),
                                header.value ? header.value->data() : nullptr,
                                header.value ? static_cast<ssize_t>(header.value->size()) : 0);
        }
        auto* value = record.value ? const_cast<char*>(record.value->data()) : nullptr;
        const std::size_t value_size = record.value ? record.value->size() : 0;
        const char* key = record.key ? record.key->data() : nullptr;
        const std::size_t key_size = record.key ? record.key->size() : 0;
        ASSERT_EQ(
            rd_kafka_producev(client.get(), RD_KAFKA_V_TOPIC(record.topic.c_str()),
                              RD_KAFKA_V_PARTITION(record.partition), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                              RD_KAFKA_V_KEY(key, key_size), RD_KAFKA_V_VALUE(value, value_size),
                              RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_TIMESTAMP(record.timestamp_ms), RD_KAFKA_V_END),
            RD_KAFKA_RESP_ERR_NO_ERROR);
    }
    ASSERT_EQ(rd_kafka_flush(client.get(), sink::kAnswerMs), RD_KAFKA_RESP_ERR_NO_ERROR);
}

inline Record plain(std::string topic, std::string value, std::int32_t partition = 0) {
    Record record;
    record.topic = std::move(topic);
    record.partition = partition;
    record.value = std::move(value);
    return record;
}

/// `count` records of values "FROM", "FROM + 1", …, over the partitions in turn.
inline std::vector<Record> numbered(const std::string& topic, int from, int count, int partitions = 1) {
    std::vector<Record> records;
    for (int i = from; i < from + count; ++i) records.push_back(plain(topic, std::to_string(i), i % partitions));
    return records;
}

inline std::vector<std::string> values_of(const std::vector<Record>& records) {
    std::vector<std::string> values;
    for (const auto& record : records) values.push_back(record.value.value_or("null"));
    return values;
}

inline std::vector<std::string> numbers(int from, int count) {
    std::vector<std::string> values;
    for (int i = from; i < from + count; ++i) values.push_back(std::to_string(i));
    return values;
}

/// What comes in a moment; a failure is the test's.
inline std::vector<Record> poll_once(RecordSource& source, Duration wait = 50ms) {
    auto records = source.poll(100, 1U << 20U, wait);
    EXPECT_TRUE(records) << records.error().message;
    return records ? *std::move(records) : std::vector<Record>();
}

/// Polls until `done()`; what came in goes to `take`.
template <typename Take, typename Done>
void poll_until(RecordSource& source, Take take, Done done) {
    const auto end = std::chrono::steady_clock::now() + sink::kBrokerPatience;
    while (!done()) {
        ASSERT_LT(std::chrono::steady_clock::now(), end) << "what was waited for did not come";
        auto records = source.poll(100, 1U << 20U, 200ms);
        ASSERT_TRUE(records) << records.error().message;
        take(*std::move(records));
    }
}

/// Exactly the next `count` records, or what came of them.
inline std::vector<Record> read(RecordSource& source, std::size_t count) {
    std::vector<Record> all;
    const auto end = std::chrono::steady_clock::now() + sink::kBrokerPatience;
    while (all.size() < count && std::chrono::steady_clock::now() < end) {
        auto records = source.poll(count - all.size(), 64U << 20U, 200ms);
        EXPECT_TRUE(records) << records.error().message;
        if (!records) break;
        for (auto& record : *records) all.push_back(std::move(record));
    }
    return all;
}

/// Topics, pattern and group that no other test has.
class DeadLetterTopics {
public:
    explicit DeadLetterTopics(std::string brokers) : brokers_(std::move(brokers)) {}

    [[nodiscard]] const std::string& brokers() const { return brokers_; }
    [[nodiscard]] std::string name(const std::string& middle) const { return base_ + "." + middle + ".dlq.v1"; }
    [[nodiscard]] std::string make(const std::string& middle, int partitions = 1,
                                   const std::map<std::string, std::string>& settings = {}) const {
        sink::create_topic(brokers_, name(middle), partitions, settings);
        return name(middle);
    }
    [[nodiscard]] RecordSourceOptions options() const {
        RecordSourceOptions options;
        options.brokers = brokers_;
        options.group = base_ + ".group";
        options.topic_pattern = base_ + ".*.dlq.v1";
        return options;
    }
    [[nodiscard]] std::unique_ptr<RecordSource> source(Log& log) const { return source(options(), log); }
    [[nodiscard]] static std::unique_ptr<RecordSource> source(RecordSourceOptions options, Log& log) {
        auto made = make_record_source(std::move(options), log);
        if (!made) throw std::runtime_error(made.error().message);
        return std::move(*made);
    }
    /// What the group committed of the partition; negative: nothing.
    [[nodiscard]] std::int64_t committed(const std::string& topic, std::int32_t partition) const {
        const auto client =
            sink::make_client(RD_KAFKA_CONSUMER, {{"bootstrap.servers", brokers_}, {"group.id", options().group}});
        rd_kafka_topic_partition_list_t* list = rd_kafka_topic_partition_list_new(1);
        rd_kafka_topic_partition_list_add(list, topic.c_str(), partition);
        EXPECT_EQ(rd_kafka_committed(client.get(), list, sink::kAnswerMs), RD_KAFKA_RESP_ERR_NO_ERROR);
        const auto offset = list->elems[0].offset;
        rd_kafka_topic_partition_list_destroy(list);
        return offset;
    }

private:
    std::string brokers_;
    std::string base_ = sink::fresh_topic();
};

/// Those of the run's real broker.
inline DeadLetterTopics real_topics() {
    return DeadLetterTopics(sink::from_environment("DELIVERD_TEST_KAFKA_BROKERS"));
}

inline std::unique_ptr<Replayer> replayer_to(const std::string& brokers, Log& log, ReplayerOptions options = {}) {
    options.brokers = brokers;
    auto made = make_replayer(options, log);
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(*made);
}

}  // namespace deliverd::deadletter
