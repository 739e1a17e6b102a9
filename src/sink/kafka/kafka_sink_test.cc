#include "sink/kafka/kafka_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "sink/kafka/testing/broker.h"
#include "sink/kafka/testing/events.h"

namespace deliverd::sink {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::unique_ptr<Sink> sink_to(const std::string& brokers, KafkaSinkOptions options = {}) {
    static NullLog log;
    options.brokers = brokers;
    auto made = make_kafka_sink(std::move(options), log);
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(*made);
}

TEST(KafkaSink, SendsKeyHeadersAndExactBytes) {
    const AnyBroker kafka;
    const auto topic = kafka.new_topic();
    auto message = test_event(7, topic, std::string("{\"a\": 1.10, \"\xc3\xa9\": \"\0\xff\"}", 20));
    message.key = "bestellung-\xc3\xa4";
    message.headers = {{"traceparent", "00-aa-bb-01"}, {"b", "2"}, {"empty", ""}, {"a", "\xe2\x82\xac 1"}};
    const auto sink = sink_to(kafka.brokers());
    const auto outcome = send_to_broker(*sink, message);
    EXPECT_EQ(outcome.kind, OutcomeKind::delivered) << outcome.detail;
    EXPECT_EQ(outcome.code, "");
    EXPECT_EQ(outcome.receipt, topic + "[0]@0");
    const auto records = read_topic(kafka.brokers(), topic);
    ASSERT_EQ(records.size(), 1U);
    EXPECT_EQ(records[0].key, message.key);
    EXPECT_EQ(records[0].value, message.body);
    EXPECT_THAT(records[0].headers,
                ElementsAre(Pair("message_id", message.message_id), Pair("aggregate_id", message.key),
                            Pair("event_type", "OrderCreated"), Pair("created_at", "2026-02-20T10:30:00.123Z"),
                            Pair("traceparent", "00-aa-bb-01"), Pair("b", "2"), Pair("empty", ""),
                            Pair("a", "\xe2\x82\xac 1")));
}

TEST(KafkaSink, AnEmptyBodyIsNoTombstoneAndAnEmptyKeyHasOnePartition) {
    const AnyBroker kafka;
    const auto topic = kafka.new_topic(8);
    const auto sink = sink_to(kafka.brokers());
    std::vector<Message> messages;
    for (int i = 0; i < 20; ++i) {
        messages.push_back(test_event(i, topic, ""));
        messages.back().key = "";
    }
    Collector outcomes;
    for (const auto& message : messages) {  // one at a time: a batch is what a random partitioner stays with
        const Message* one = &message;
        sink->send({&one, 1}, outcomes);
        ASSERT_TRUE(outcomes.wait_for(static_cast<std::size_t>(message.id) + 1, kBrokerPatience));
    }
    const auto records = read_topic(kafka.brokers(), topic);
    ASSERT_EQ(records.size(), messages.size());
    for (const auto& record : records) {
        EXPECT_EQ(record.value, "");
        EXPECT_EQ(record.key, "");
        EXPECT_EQ(record.partition, records.front().partition);
    }
}

TEST(KafkaSink, AKeyGoesToThePartitionThatJavaProducersUse) {
    const AnyBroker kafka;
    const auto topic = kafka.new_topic(10);
    const auto sink = sink_to(kafka.brokers());
    // Known answers of Java's partitioner, (murmur2(key) & 0x7fffffff) % 10: murmur2("21") is -973932308 and
    // murmur2("foobar") is -790332482 in Kafka's own UtilsTest.
    const std::map<std::string, std::int32_t> expected{{"21", (-973932308 & 0x7fffffff) % 10},
                                                       {"foobar", (-790332482 & 0x7fffffff) % 10}};
    std::int64_t id = 0;
    for (const auto& [key, partition] : expected) {
        auto message = test_event(++id, topic);
        message.key = key;
        EXPECT_THAT(send_to_broker(*sink, message).receipt,
                    testing::Optional(HasSubstr("[" + std::to_string(partition) + "]")));
    }
}

// The example of CloudEvents' Kafka protocol binding 1.0.2, section 3.2.4, with this project's attributes beside.
TEST(KafkaSink, CloudEventsBinaryMode) {
    const AnyBroker kafka;
    const auto topic = kafka.new_topic();
    auto message = test_event(1, topic, "{ \"application\": \"data\" }");
    message.message_id = "1234-1234-1234";
    message.type = "com.example.someevent";
    message.created_at = "2018-04-05T03:56:24Z";
    message.content_type = "application/cloudevents+json; charset=UTF-8";
    message.key = "mykey";
    message.headers = {{"trace_parent", "00-aa"}};
    KafkaSinkOptions options;
    options.attributes = {EventFormat::cloudevents, "/mycontext/subcontext"};
    const auto sink = sink_to(kafka.brokers(), options);
    ASSERT_EQ(send_to_broker(*sink, message).kind, OutcomeKind::delivered);
    const auto records = read_topic(kafka.brokers(), topic);
    ASSERT_EQ(records.size(), 1U);
    EXPECT_EQ(records[0].key, "mykey");
    EXPECT_EQ(records[0].value, message.body);
    EXPECT_THAT(records[0].headers,
                testing::UnorderedElementsAre(
                    Pair("content-type", "application/cloudevents+json; charset=UTF-8"), Pair("ce_specversion", "1.0"),
                    Pair("ce_type", "com.example.someevent"), Pair("ce_source", "/mycontext/subcontext"),
                    Pair("ce_id", "1234-1234-1234"), Pair("ce_time", "2018-04-05T03:56:24Z"),
                    Pair("ce_subject", "mykey"), Pair("ce_partitionkey", "mykey"), Pair("ce_traceparent", "00-aa")));
}

class KafkaCompression : public testing::TestWithParam<const char*> {};

TEST_P(KafkaCompression, TheBytesComeBack) {
    const AnyBroker kafka;
    const auto topic = kafka.new_topic();
    KafkaSinkOptions options;
    options.compression = GetParam();
    options.linger = 50ms;  // into one batch
    const auto sink = sink_to(kafka.brokers(), options);
    std::vector<Message> messages;
    for (int i = 0; i < 200; ++i) {
        messages.push_back(test_event(i, topic, std::string(500, 'x') + std::to_string(i)));
    }
    Collector outcomes;
    sink->send(pointers_to(messages), outcomes);
    ASSERT_TRUE(outcomes.wait_for(messages.size(), kBrokerPatience));
    const auto records = read_topic(kafka.brokers(), topic);
    ASSERT_EQ(records.size(), messages.size());
    for (std::size_t i = 0; i < records.size(); ++i) EXPECT_EQ(records[i].value, messages[i].body);
}

INSTANTIATE_TEST_SUITE_P(Each, KafkaCompression, testing::Values("none", "gzip", "snappy", "lz4", "zstd"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(KafkaSink, NamesThatAreNoTopicsArePermanent) {
    const AnyBroker kafka;
    const auto topic = kafka.new_topic();
    const auto sink = sink_to(kafka.brokers());
    const std::vector<std::string> bad{"", ".", "..", "a b", "a/b", "\xc3\xa9", "a\nb", std::string(250, 'x')};
    for (const auto& name : bad) {
        const auto outcome = send_to_broker(*sink, test_event(1, name));
        EXPECT_EQ(outcome.kind, OutcomeKind::permanent) << name;
        EXPECT_EQ(outcome.code, "BAD_TOPIC") << name;
        EXPECT_LE(outcome.detail.size(), kMaxDetailBytes);
        EXPECT_EQ(outcome.detail.find('\n'), std::string::npos);
    }
    EXPECT_EQ(send_to_broker(*sink, test_event(2, topic)).kind, OutcomeKind::delivered);
}

TEST(KafkaSink, AnUnknownTopicIsRetryableAndSaysSo) {
    DELIVERD_NEEDS_REAL_KAFKA();
    const auto brokers = from_environment("DELIVERD_TEST_KAFKA_BROKERS");
    const auto sink = sink_to(brokers);
    const auto topic = fresh_topic();
    for (int attempt = 0; attempt < 2; ++attempt) {
        const auto outcome = send_to_broker(*sink, test_event(1, topic));
        EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
        EXPECT_EQ(outcome.code, "UNKNOWN_TOPIC");
        EXPECT_FALSE(outcome.not_attempted);
        EXPECT_THAT(outcome.detail, HasSubstr(topic));
        EXPECT_THAT(outcome.detail, HasSubstr("does not create topics"));
    }
    create_topic(brokers, topic, 1);  // someone does
    const auto end = std::chrono::steady_clock::now() + kBrokerPatience;
    Outcome outcome;
    do {
        outcome = send_to_broker(*sink, test_event(2, topic));
    } while (outcome.code == "UNKNOWN_TOPIC" && std::chrono::steady_clock::now() < end);
    EXPECT_EQ(outcome.kind, OutcomeKind::delivered) << outcome.detail;
}

TEST(KafkaSink, ABrokerMayCreateTopics) {
    DELIVERD_NEEDS_REAL_KAFKA();
    const OwnBroker kafka("auto.create.topics.enable=true");
    const auto sink = sink_to(kafka.brokers());
    // On a slow machine it is made later than the sink waits for it.
    const auto outcome = send_until(*sink, test_event(1, "made.by.the.broker", "first"), "");
    EXPECT_EQ(outcome.kind, OutcomeKind::delivered) << outcome.detail;
    EXPECT_EQ(read_topic(kafka.brokers(), "made.by.the.broker").size(), 1U);
}

TEST(KafkaSink, AMessageTooLargeIsPermanentAndItsNeighboursArrive) {
    DELIVERD_NEEDS_REAL_KAFKA();
    const auto brokers = from_environment("DELIVERD_TEST_KAFKA_BROKERS");
    const auto topic = fresh_topic();
    create_topic(brokers, topic, 1, {{"max.message.bytes", "2000"}});
    KafkaSinkOptions options;
    options.linger = 100ms;  // all in one batch, which is too large as a whole
    const auto sink = sink_to(brokers, options);
    std::vector<Message> messages;
    for (int i = 0; i < 20; ++i) messages.push_back(test_event(i, topic, std::string(i == 10 ? 3000 : 500, 'x')));
    messages.push_back(test_event(20, topic, std::string(2'000'000, 'x')));  // more than librdkafka takes
    Collector outcomes;
    sink->send(pointers_to(messages), outcomes);
    ASSERT_TRUE(outcomes.wait_for(messages.size(), kBrokerPatience));
    for (const auto& message : messages) {
        const auto got = outcomes.of(message.id);
        ASSERT_EQ(got.size(), 1U);
        if (message.body.size() == 500) {
            EXPECT_EQ(got[0].kind, OutcomeKind::delivered) << got[0].code << got[0].detail;
            continue;
        }
        EXPECT_EQ(got[0].kind, OutcomeKind::permanent) << got[0].detail;
        EXPECT_EQ(got[0].code, "MESSAGE_TOO_LARGE");
        EXPECT_THAT(got[0].detail, HasSubstr(" " + std::to_string(message.body.size()) + " bytes"));
        EXPECT_THAT(got[0].detail, HasSubstr("max.message.bytes"));
    }
    EXPECT_EQ(read_topic(brokers, topic).size(), 19U);
}

TEST(KafkaSink, StopWaitsForWhatIsUnderWay) {
    const AnyBroker kafka;
    const auto topic = kafka.new_topic(3);
    KafkaSinkOptions options;
    options.linger = 5s;  // stop() does not wait for it
    const auto sink = sink_to(kafka.brokers(), options);
    std::vector<Message> messages;
    for (int i = 0; i < 1000; ++i) messages.push_back(test_event(i, topic));
    Collector outcomes;
    sink->send(pointers_to(messages), outcomes);
    sink->stop(20s);
    ASSERT_EQ(outcomes.count(), messages.size());
    for (const auto& message : messages) EXPECT_EQ(outcomes.of(message.id).front().kind, OutcomeKind::delivered);
    EXPECT_EQ(read_topic(kafka.brokers(), topic).size(), messages.size());

    const auto after = send_to_broker(*sink, test_event(5000, topic));
    EXPECT_EQ(after.kind, OutcomeKind::retryable);
    EXPECT_EQ(after.code, "STOPPED");
    sink->stop(0s);
}

TEST(KafkaSink, ChecksThatABrokerAnswers) {
    const AnyBroker kafka;
    const auto sink = sink_to(kafka.brokers());
    const auto checked = sink->check(20s);
    EXPECT_TRUE(checked) << checked.error().message;
}

}  // namespace
}  // namespace deliverd::sink
