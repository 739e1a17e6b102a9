#include "deadletter/provenance.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "deadletter/failure_headers.h"
#include "deadletter/testing/any_headers.h"

namespace deliverd::deadletter {
namespace {

std::string be32(std::uint32_t number) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8)
        bytes.push_back(static_cast<char>(number >> static_cast<unsigned>(shift)));
    return bytes;
}

std::string be64(std::uint64_t number) {
    return be32(static_cast<std::uint32_t>(number >> 32U)) + be32(static_cast<std::uint32_t>(number));
}

Record record_with(Headers headers) {
    return {.topic = "orders.dlq.v1", .key = "k", .value = "{}", .headers = std::move(headers)};
}

Record record_from(std::string topic) {
    Record record;
    record.topic = std::move(topic);
    return record;
}

store::Provenance provenance(Headers headers) {
    return provenance_of(record_with(std::move(headers)));
}

TEST(Provenance, WithoutHeadersTheTopicsNameTells) {
    const auto found = provenance({});
    EXPECT_EQ(found.original_topic, "orders");
    EXPECT_EQ(found.error_message, "unknown error");
    EXPECT_FALSE(found.original_partition || found.original_offset || found.error_class || found.stack_trace);
    EXPECT_FALSE(found.producer);
    EXPECT_EQ(provenance_of(record_from("orders-dlt")).original_topic, "orders-dlt");
    EXPECT_EQ(provenance_of(record_from(".dlq.v1")).original_topic, ".dlq.v1") << "never empty";
}

TEST(Provenance, Plain) {
    const auto found = provenance({{"original_topic", "payments"},
                                   {"original_partition", "3"},
                                   {"original_offset", "9007199254740993"},
                                   {"error", "no such account"},
                                   {"error_class", "AccountMissing"},
                                   {"stack_trace", "at a\nat b"}});
    EXPECT_EQ(found.original_topic, "payments");
    EXPECT_EQ(found.original_partition, 3);
    EXPECT_EQ(found.original_offset, 9007199254740993);
    EXPECT_EQ(found.error_message, "no such account");
    EXPECT_EQ(found.error_class, "AccountMissing");
    EXPECT_EQ(found.stack_trace, "at a\nat b");
    EXPECT_EQ(found.producer, std::nullopt);
}

TEST(Provenance, KafkaConnect) {
    const auto found =
        provenance({{"__connect.errors.topic", "orders.v1"},
                    {"__connect.errors.partition", "2"},
                    {"__connect.errors.offset", "17"},
                    {"__connect.errors.connector.name", "s3-sink"},
                    {"__connect.errors.task.id", "0"},
                    {"__connect.errors.stage", "VALUE_CONVERTER"},
                    {"__connect.errors.class.name", "org.apache.kafka.connect.json.JsonConverter"},
                    {"__connect.errors.exception.class.name", "org.apache.kafka.connect.errors.DataException"},
                    {"__connect.errors.exception.message", "Converting byte[] failed"},
                    {"__connect.errors.exception.stacktrace", "org.apache…"}});
    EXPECT_EQ(found.original_topic, "orders.v1");
    EXPECT_EQ(found.original_partition, 2);
    EXPECT_EQ(found.original_offset, 17);
    EXPECT_EQ(found.error_message, "Converting byte[] failed");
    EXPECT_EQ(found.error_class, "org.apache.kafka.connect.errors.DataException");
    EXPECT_EQ(found.stack_trace, "org.apache…");
    EXPECT_EQ(found.producer, "kafka-connect: s3-sink");
}

TEST(Provenance, KafkaConnectThatDoesNotKnowThePlace) {
    const auto found = provenance(
        {{"__connect.errors.topic", ""}, {"__connect.errors.partition", "-1"}, {"__connect.errors.offset", "-1"}});
    EXPECT_EQ(found.original_topic, "orders");
    EXPECT_EQ(found.original_partition, std::nullopt);
    EXPECT_EQ(found.original_offset, std::nullopt);
}

TEST(Provenance, SpringKafkaWritesNumbersBigEndian) {
    const auto found = provenance({{"kafka_dlt-original-topic", "orders.v1"},
                                   {"kafka_dlt-original-partition", be32(258)},
                                   {"kafka_dlt-original-offset", be64(0x0102030405060708)},
                                   {"kafka_dlt-original-timestamp", be64(1)},
                                   {"kafka_dlt-original-consumer-group", "billing"},
                                   {"kafka_dlt-exception-fqcn", "com.example.Refused"},
                                   {"kafka_dlt-exception-cause-fqcn", "java.io.IOException"},
                                   {"kafka_dlt-exception-message", "refused"},
                                   {"kafka_dlt-exception-stacktrace", "trace"}});
    EXPECT_EQ(found.original_topic, "orders.v1");
    EXPECT_EQ(found.original_partition, 258);
    EXPECT_EQ(found.original_offset, 0x0102030405060708);
    EXPECT_EQ(found.error_class, "com.example.Refused");
    EXPECT_EQ(found.error_message, "refused");
    EXPECT_EQ(found.stack_trace, "trace");
    EXPECT_EQ(found.producer, "spring-kafka: billing");
}

TEST(Provenance, SpringsWrapperGivesWayToItsCause) {
    EXPECT_EQ(provenance({{"kafka_dlt-exception-fqcn", std::string(kSpringWrapper)},
                          {"kafka_dlt-exception-cause-fqcn", "java.io.IOException"}})
                  .error_class,
              "java.io.IOException");
    EXPECT_EQ(provenance({{"kafka_dlt-exception-fqcn", std::string(kSpringWrapper)}}).error_class, kSpringWrapper);
}

TEST(Provenance, SpringsRetryTopicsHaveNamesOfTheirOwn) {
    const auto found = provenance({{"kafka_original-topic", "orders.v1"},
                                   {"kafka_original-partition", be32(1)},
                                   {"kafka_original-offset", be64(99)},
                                   {"kafka_exception-message", "boom"},
                                   {"retry_topic-attempts", be32(4)}});
    EXPECT_EQ(found.original_topic, "orders.v1");
    EXPECT_EQ(found.original_partition, 1);
    EXPECT_EQ(found.original_offset, 99);
    EXPECT_EQ(found.error_message, "boom");
}

TEST(Provenance, OfRepeatedHeadersTheFirstOriginAndTheLastFailure) {
    const auto found = provenance({{"kafka_dlt-original-topic", "orders.v1"},
                                   {"kafka_dlt-original-offset", be64(5)},
                                   {"kafka_dlt-exception-message", "first"},
                                   {"kafka_dlt-original-topic", "orders.v1-retry"},
                                   {"kafka_dlt-original-offset", be64(77)},
                                   {"kafka_dlt-exception-message", "second"}});
    EXPECT_EQ(found.original_topic, "orders.v1");
    EXPECT_EQ(found.original_offset, 5);
    EXPECT_EQ(found.error_message, "second");
}

TEST(Provenance, SmallRyePutsTheNewestFirst) {
    const auto found = provenance({{"dead-letter-exception-class-name", "B"},
                                   {"dead-letter-reason", "second"},
                                   {"dead-letter-topic", "orders.v1-retry"},
                                   {"dead-letter-partition", "4"},
                                   {"dead-letter-offset", "44"},
                                   {"dead-letter-exception-class-name", "A"},
                                   {"dead-letter-reason", "first"},
                                   {"dead-letter-topic", "orders.v1"},
                                   {"dead-letter-partition", "1"},
                                   {"dead-letter-offset", "11"}});
    EXPECT_EQ(found.original_topic, "orders.v1");
    EXPECT_EQ(found.original_partition, 1);
    EXPECT_EQ(found.original_offset, 11);
    EXPECT_EQ(found.error_message, "second");
    EXPECT_EQ(found.error_class, "B");
    EXPECT_EQ(found.producer, "smallrye");
}

TEST(Provenance, KafkaStreams) {
    const auto found = provenance({{"__streams.errors.exception", "java.lang.IllegalStateException: count: negative"},
                                   {"__streams.errors.message", "count: negative"},
                                   {"__streams.errors.stacktrace", "trace"},
                                   {"__streams.errors.topic", "clicks"},
                                   {"__streams.errors.partition", "0"},
                                   {"__streams.errors.offset", "12"}});
    EXPECT_EQ(found.original_topic, "clicks");
    EXPECT_EQ(found.original_offset, 12);
    EXPECT_EQ(found.error_message, "count: negative");
    EXPECT_EQ(found.error_class, "java.lang.IllegalStateException");
    EXPECT_EQ(found.producer, "kafka-streams");
    EXPECT_EQ(provenance({{"__streams.errors.exception", "X"}, {"__streams.errors.message", std::nullopt}}).error_class,
              "X");
}

TEST(Provenance, ShareGroupsSpringCloudStreamAndConfluentsRules) {
    const auto shared = provenance({{"__dlq.errors.topic", "jobs"},
                                    {"__dlq.errors.partition", "2"},
                                    {"__dlq.errors.offset", "41"},
                                    {"__dlq.errors.group", "workers"},
                                    {"__dlq.errors.message", "Offset rejected by client."}});
    EXPECT_EQ(shared.original_topic, "jobs");
    EXPECT_EQ(shared.original_offset, 41);
    EXPECT_EQ(shared.producer, "kafka-share-group: workers");

    const auto stream = provenance({{"x-original-topic", "orders.v1"},
                                    {"x-original-partition", be32(7)},
                                    {"x-original-offset", "1234567"},
                                    {"x-exception-fqcn", "E"},
                                    {"x-exception-message", "m"}});
    EXPECT_EQ(stream.original_partition, 7);
    EXPECT_EQ(stream.original_offset, 1234567) << "digits in place of bytes";
    EXPECT_EQ(stream.error_class, "E");

    const auto rules =
        provenance({{"__rule.name", "checkLen"}, {"__rule.topic", "orders.v1"}, {"__rule.exception", "Expr failed"}});
    EXPECT_EQ(rules.original_topic, "orders.v1");
    EXPECT_EQ(rules.error_message, "Expr failed");
    EXPECT_EQ(rules.producer, "confluent-rules: checkLen");
}

TEST(Provenance, ErrorComesBeforeEveryFamilysMessage) {
    const auto found = provenance({{"kafka_dlt-exception-message", "spring"},
                                   {"kafka_dlt-exception-fqcn", "E"},
                                   {"error_message", "words"},
                                   {"error", "plain"}});
    EXPECT_EQ(found.error_message, "plain");
    EXPECT_EQ(found.error_class, "E");
}

TEST(Provenance, PartitionAndOffsetAreOfTheFamilyThatNamedTheTopic) {
    const auto found = provenance({{"original_topic", "a"},
                                   {"__connect.errors.topic", "b"},
                                   {"__connect.errors.partition", "2"},
                                   {"__connect.errors.offset", "3"}});
    EXPECT_EQ(found.original_topic, "a");
    EXPECT_EQ(found.original_partition, std::nullopt);
    EXPECT_EQ(found.original_offset, std::nullopt);
}

TEST(Provenance, WhatSaysNothingIsPassedOver) {
    const auto found = provenance({{"original_topic", "not a topic"},
                                   {"error", ""},
                                   {"error", std::nullopt},
                                   {"kafka_dlt-original-topic", "orders.v1"},
                                   {"kafka_dlt-original-partition", "abc"},
                                   {"kafka_dlt-original-offset", be64(~std::uint64_t{0})}});
    EXPECT_EQ(found.original_topic, "orders.v1");
    EXPECT_EQ(found.original_partition, std::nullopt);
    EXPECT_EQ(found.original_offset, std::nullopt);
    EXPECT_EQ(found.error_message, "unknown error");
    EXPECT_EQ(provenance({{"original_topic", "a"}, {"original_partition", "4294967296"}}).original_partition,
              std::nullopt);
}

TEST(Provenance, LongAndBrokenTextIsMadePresentable) {
    const auto found = provenance({{"error", std::string("a\0b\xff", 4)},
                                   {"stack_trace", std::string(kMaxStackTraceBytes, 'x') + "€€"},
                                   {"error_class", std::string(3 * kMaxErrorClassBytes, '\xff')}});
    EXPECT_EQ(found.error_message, "a\uFFFDb\uFFFD");
    EXPECT_EQ(found.stack_trace->size(), kMaxStackTraceBytes);
    EXPECT_TRUE(found.stack_trace->ends_with("…"));
    EXPECT_LE(found.error_class->size(), kMaxErrorClassBytes);
}

// --- whatever the headers are --------------------------------------------------------------------------------------

void check_text(const std::optional<std::string>& text, std::size_t max_bytes) {
    if (!text) return;
    RC_ASSERT(text->size() <= max_bytes);
    RC_ASSERT(!find_invalid_utf8(*text).has_value());
    RC_ASSERT(text->find('\0') == std::string::npos);
}

RC_GTEST_PROP(ProvenanceProperty, IsPresentableWhateverTheBytes, ()) {
    const auto found = provenance(*any_headers());
    RC_ASSERT(!found.original_topic.empty());
    RC_ASSERT(is_topic_name(found.original_topic));
    RC_ASSERT(!found.error_message.empty());
    check_text(found.error_message, kMaxErrorMessageBytes);
    check_text(found.error_class, kMaxErrorClassBytes);
    check_text(found.stack_trace, kMaxStackTraceBytes);
    check_text(found.producer, kMaxProducerBytes);
    RC_ASSERT(found.original_partition.value_or(0) >= 0);
    RC_ASSERT(found.original_offset.value_or(0) >= 0);
}

RC_GTEST_PROP(ProvenanceProperty, AnythingPresentableFits, (const std::string& bytes, std::uint8_t limit)) {
    const std::string text = presentable(bytes, limit);
    check_text(text, limit);
    if (!find_invalid_utf8(bytes) && bytes.find('\0') == std::string::npos && bytes.size() <= limit) {
        RC_ASSERT(text == bytes);
    }
}

}  // namespace
}  // namespace deliverd::deadletter
