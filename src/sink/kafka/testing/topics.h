// For tests: making and reading topics as anyone else would, with clients of their own.
#pragma once

#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace deliverd::sink {

inline constexpr int kAnswerMs = 30'000;  // a broker that takes longer has failed the test

struct Record {
    std::int32_t partition = 0;
    std::int64_t offset = 0;
    std::string key{};
    std::optional<std::string> value{};
    std::vector<std::pair<std::string, std::string>> headers{};
};

struct ClientDeleter {
    void operator()(rd_kafka_t* client) const { rd_kafka_destroy(client); }
};
using Client = std::unique_ptr<rd_kafka_t, ClientDeleter>;

inline Client make_client(rd_kafka_type_t type, const std::map<std::string, std::string>& settings) {
    rd_kafka_conf_t* conf = rd_kafka_conf_new();
    std::array<char, 256> problem{};
    for (const auto& [name, value] : settings) {
        EXPECT_EQ(rd_kafka_conf_set(conf, name.c_str(), value.c_str(), problem.data(), problem.size()),
                  RD_KAFKA_CONF_OK)
            << problem.data();
    }
    rd_kafka_t* client = rd_kafka_new(type, conf, problem.data(), problem.size());
    if (client == nullptr) std::abort();
    return Client(client);
}

/// A name no other test uses.
inline std::string fresh_topic() {
    static int last = 0;
    return "t." + std::to_string(::getpid()) + "." + std::to_string(++last);
}

/// How many partitions of the topic have a leader.
inline std::size_t led_partitions(rd_kafka_t* client, const std::string& topic) {
    rd_kafka_topic_t* handle = rd_kafka_topic_new(client, topic.c_str(), nullptr);
    const rd_kafka_metadata_t* metadata = nullptr;
    std::size_t led = 0;
    if (rd_kafka_metadata(client, 0, handle, &metadata, kAnswerMs) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        for (int i = 0; metadata->topic_cnt == 1 && i < metadata->topics[0].partition_cnt; ++i) {
            if (metadata->topics[0].partitions[i].leader >= 0) ++led;
        }
        rd_kafka_metadata_destroy(metadata);
    }
    rd_kafka_topic_destroy(handle);
    return led;
}

/// Makes a topic at a real broker and waits until it has its leaders.
inline void create_topic(const std::string& brokers, const std::string& topic, int partitions,
                         const std::map<std::string, std::string>& settings = {}) {
    const Client client = make_client(RD_KAFKA_PRODUCER, {{"bootstrap.servers", brokers}});
    rd_kafka_NewTopic_t* wanted = rd_kafka_NewTopic_new(topic.c_str(), partitions, 1, nullptr, 0);
    for (const auto& [name, value] : settings) rd_kafka_NewTopic_set_config(wanted, name.c_str(), value.c_str());
    rd_kafka_queue_t* queue = rd_kafka_queue_new(client.get());
    rd_kafka_CreateTopics(client.get(), &wanted, 1, nullptr, queue);
    rd_kafka_event_t* event = rd_kafka_queue_poll(queue, kAnswerMs);
    ASSERT_NE(event, nullptr) << "no answer to the making of topic " << topic;
    EXPECT_EQ(rd_kafka_event_error(event), RD_KAFKA_RESP_ERR_NO_ERROR) << rd_kafka_event_error_string(event);
    rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_NewTopic_destroy(wanted);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kAnswerMs);
    while (led_partitions(client.get(), topic) != static_cast<std::size_t>(partitions)) {
        ASSERT_LT(std::chrono::steady_clock::now(), end) << "topic " << topic << " has no leader";
    }
}

inline Record record_of(const rd_kafka_message_t& message) {
    Record record{message.partition, message.offset};
    record.key.assign(static_cast<const char*>(message.key), message.key_len);
    if (message.payload != nullptr) record.value.emplace(static_cast<const char*>(message.payload), message.len);
    rd_kafka_headers_t* headers = nullptr;
    if (rd_kafka_message_headers(&message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR) return record;
    const char* name = nullptr;
    const void* value = nullptr;
    std::size_t size = 0;
    for (std::size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR;
         ++i) {
        record.headers.emplace_back(name, std::string(static_cast<const char*>(value), size));
    }
    return record;
}

/// Everything in the topic now, each partition in its order.
inline std::vector<Record> read_topic(const std::string& brokers, const std::string& topic) {
    const Client client = make_client(RD_KAFKA_CONSUMER, {{"bootstrap.servers", brokers},
                                                          {"group.id", "reader"},
                                                          {"enable.auto.commit", "false"},
                                                          {"check.crcs", "true"}});
    rd_kafka_poll_set_consumer(client.get());
    rd_kafka_topic_partition_list_t* all = rd_kafka_topic_partition_list_new(1);
    std::map<std::int32_t, std::int64_t> ends;
    const auto partitions = static_cast<std::int32_t>(led_partitions(client.get(), topic));
    for (std::int32_t partition = 0; partition < partitions; ++partition) {
        std::int64_t low = 0;
        std::int64_t high = 0;
        // A new topic's leader may not know yet that it is one.
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kAnswerMs);
        auto error = RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION;
        while (error == RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION && std::chrono::steady_clock::now() < until) {
            error = rd_kafka_query_watermark_offsets(client.get(), topic.c_str(), partition, &low, &high, kAnswerMs);
        }
        EXPECT_EQ(error, RD_KAFKA_RESP_ERR_NO_ERROR);
        if (high == low) continue;
        ends[partition] = high;
        rd_kafka_topic_partition_list_add(all, topic.c_str(), partition)->offset = 0;
    }
    rd_kafka_assign(client.get(), all);
    rd_kafka_topic_partition_list_destroy(all);
    std::vector<Record> records;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kAnswerMs);
    while (!ends.empty() && std::chrono::steady_clock::now() < end) {
        rd_kafka_message_t* message = rd_kafka_consumer_poll(client.get(), 100);
        if (message == nullptr) continue;
        if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            records.push_back(record_of(*message));
            if (message->offset + 1 >= ends[message->partition]) ends.erase(message->partition);
        }
        rd_kafka_message_destroy(message);
    }
    EXPECT_TRUE(ends.empty()) << "topic " << topic << " could not be read to its end";
    rd_kafka_consumer_close(client.get());
    return records;
}

}  // namespace deliverd::sink
