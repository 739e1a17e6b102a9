// The source on a real broker: what it gives, what it commits, what comes again.
#include "deadletter/kafka/record_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <set>

#include "base/testing/recording_log.h"
#include "deadletter/kafka/testing/records.h"

namespace deliverd::deadletter {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::Not;

TEST(KafkaSource, ReadsFromTheBeginningAndSaysWhenARecordWasMade) {
    DELIVERD_NEEDS_REAL_KAFKA();
    RecordingLog log;
    const auto topics = real_topics();
    auto record = plain(topics.make("a"), "v");
    record.timestamp_ms = 1'771'583'400'123;
    put(topics.brokers(), {record});
    put(topics.brokers(), {plain(topics.make("b", 1, {{"message.timestamp.type", "LogAppendTime"}}), "v")});
    const auto got = read(*topics.source(log), 2);
    ASSERT_EQ(got.size(), 2U);
    const auto& a = got[0].topic == record.topic ? got[0] : got[1];
    const auto& b = got[0].topic == record.topic ? got[1] : got[0];
    EXPECT_EQ(a.timestamp_ms, record.timestamp_ms);
    EXPECT_EQ(a.timestamp_type, RecordTime::created);
    EXPECT_EQ(b.timestamp_type, RecordTime::appended);
    EXPECT_GT(b.timestamp_ms, record.timestamp_ms);
    EXPECT_EQ(b.topic, topics.name("b"));
    EXPECT_EQ(b.partition, 0);
    EXPECT_EQ(b.offset, 0);
}

TEST(KafkaSource, GivesNoMoreThanAskedFor) {
    DELIVERD_NEEDS_REAL_KAFKA();
    RecordingLog log;
    const auto topics = real_topics();
    const auto topic = topics.make("a");
    std::vector<Record> records;
    for (int i = 0; i < 50; ++i) records.push_back(plain(topic, std::string(1000, 'x')));
    put(topics.brokers(), records);
    const auto source = topics.source(log);
    ASSERT_EQ(read(*source, 1).size(), 1U);
    for (std::size_t left = 49; left > 0;) {  // two records are at least 1500 bytes
        const auto got = source->poll(100, 1500, 10s);
        ASSERT_TRUE(got);
        EXPECT_LE(got->size(), 2U);
        left -= got->size();
    }
}

TEST(KafkaSource, FindsTopicsThatAreCreatedLater) {
    DELIVERD_NEEDS_REAL_KAFKA();
    RecordingLog log;
    const auto topics = real_topics();
    const auto source = topics.source(log);
    EXPECT_EQ(poll_once(*source, 100ms).size(), 0U);
    put(topics.brokers(), {plain(topics.make("first"), "1")});
    EXPECT_THAT(values_of(read(*source, 1)), ElementsAre("1"));
    ASSERT_TRUE(source->commit(10s));
    sink::create_topic(topics.brokers(), topics.name("second") + ".not", 1);
    put(topics.brokers(), {plain(topics.name("second") + ".not", "no dead letter")});
    put(topics.brokers(), {plain(topics.make("second"), "2")});
    EXPECT_THAT(values_of(read(*source, 1)), ElementsAre("2"));
}

TEST(KafkaSource, WhatWasNotCommittedComesAgain) {
    DELIVERD_NEEDS_REAL_KAFKA();
    RecordingLog log;
    const auto topics = real_topics();
    const auto topic = topics.make("a");
    put(topics.brokers(), numbered(topic, 0, 20));
    {
        const auto source = topics.source(log);
        EXPECT_THAT(values_of(read(*source, 8)), ElementsAreArray(numbers(0, 8)));
        ASSERT_TRUE(source->commit(10s));
        EXPECT_THAT(values_of(read(*source, 5)), ElementsAreArray(numbers(8, 5)));
    }
    EXPECT_EQ(topics.committed(topic, 0), 8);
    {
        const auto source = topics.source(log);
        EXPECT_THAT(values_of(read(*source, 12)), ElementsAreArray(numbers(8, 12)));
        ASSERT_TRUE(source->commit(10s));
        ASSERT_TRUE(source->commit(10s));  // of nothing
    }
    put(topics.brokers(), numbered(topic, 20, 1));
    EXPECT_THAT(values_of(read(*topics.source(log), 1)), ElementsAre("20"));
}

TEST(KafkaSource, PausedItGivesNothingAndThenEverythingThatWasNotCommitted) {
    DELIVERD_NEEDS_REAL_KAFKA();
    RecordingLog log;
    const auto topics = real_topics();
    const auto topic = topics.make("a");
    put(topics.brokers(), numbered(topic, 0, 1000));
    const auto source = topics.source(log);
    ASSERT_EQ(read(*source, 5).size(), 5U);
    ASSERT_TRUE(source->commit(10s));
    ASSERT_EQ(read(*source, 5).size(), 5U);
    for (int round = 0; round < 2; ++round) {
        source->pause();
        source->pause();
        for (int i = 0; i < 3; ++i) EXPECT_EQ(poll_once(*source, 100ms).size(), 0U);
        source->resume();
        source->resume();
        EXPECT_THAT(values_of(read(*source, 400)), ElementsAreArray(numbers(5, 400)));
    }
    ASSERT_TRUE(source->commit(10s));
    EXPECT_EQ(topics.committed(topic, 0), 405);
    source->pause();  // with nothing uncommitted
    source->resume();
    EXPECT_THAT(values_of(read(*source, 10)), ElementsAreArray(numbers(405, 10)));
    source->pause();
    ASSERT_TRUE(source->commit(10s));  // what was stored is stored
    source->resume();
    EXPECT_THAT(values_of(read(*source, 10)), ElementsAreArray(numbers(415, 10)));
}

TEST(KafkaSource, LargeRecordsComeThroughASmallWindow) {
    DELIVERD_NEEDS_REAL_KAFKA();
    RecordingLog log;
    const auto topics = real_topics();
    const auto topic = topics.make("a", 1, {{"max.message.bytes", "8000000"}});
    std::vector<Record> records;
    for (const std::size_t size : {900'000U, 10U, 5'000'000U, 900'000U, 3'000'000U, 10U}) {
        records.push_back(plain(topic, std::string(size, static_cast<char>('a' + records.size()))));
    }
    put(topics.brokers(), records);
    auto options = topics.options();
    options.prefetch_bytes = 1;  // as little as it takes
    const auto source = topics.source(options, log);
    EXPECT_TRUE(values_of(read(*source, records.size())) == values_of(records));
}

TEST(KafkaSource, WakeEndsAPoll) {
    DELIVERD_NEEDS_REAL_KAFKA();
    RecordingLog log;
    const auto topics = real_topics();
    const auto source = topics.source(log);
    std::promise<void> began;
    auto polled = std::async(std::launch::async, [&] {
        began.set_value();
        return source->poll(10, 1000, 10min);
    });
    began.get_future().wait();
    source->wake();
    ASSERT_EQ(polled.wait_for(sink::kBrokerPatience), std::future_status::ready);
    EXPECT_EQ(polled.get()->size(), 0U);
    source->wake();  // before the poll it is meant for has begun
    EXPECT_EQ(source->poll(10, 1000, 10min)->size(), 0U);
    put(topics.brokers(), {plain(topics.make("a"), "1")});
    EXPECT_THAT(values_of(read(*source, 1)), ElementsAre("1"));
}

TEST(KafkaSource, LagIsWhatIsNotCommittedYet) {
    DELIVERD_NEEDS_REAL_KAFKA();
    RecordingLog log;
    const auto topics = real_topics();
    const auto topic = topics.make("a", 2);
    put(topics.brokers(), numbered(topic, 0, 30, 2));
    const auto until_lag = [](RecordSource& source, std::int64_t wanted) {
        poll_until(source, [](const auto&) {}, [&] { return source.lag() == wanted; });
    };
    {
        const auto source = topics.source(log);
        EXPECT_EQ(source->lag(), 0);  // of no partition yet
        ASSERT_EQ(read(*source, 30).size(), 30U);
        until_lag(*source, 30);
        ASSERT_TRUE(source->commit(10s));
        until_lag(*source, 0);
        put(topics.brokers(), numbered(topic, 30, 6, 2));
        until_lag(*source, 6);
        source->pause();
        put(topics.brokers(), numbered(topic, 36, 6, 2));
        until_lag(*source, 12);
    }
    const auto source = topics.source(log);
    until_lag(*source, 12);  // and once more, before anything was committed by this one
}

TEST(KafkaSource, IsReachableWhileABrokerAnswers) {
    DELIVERD_NEEDS_REAL_KAFKA();
    RecordingLog log;
    sink::OwnBroker kafka;
    RecordSourceOptions options;
    options.brokers = kafka.brokers();
    const auto made = make_record_source(options, log);
    ASSERT_TRUE(made) << made.error().message;
    const auto until_reachable = [&] { poll_until(**made, [](const auto&) {}, [&] { return (*made)->reachable(); }); };
    until_reachable();
    kafka.command("pause");
    EXPECT_FALSE((*made)->reachable());
    kafka.command("resume");
    until_reachable();
}

TEST(KafkaSource, RecordsLostBeforeTheyWereReadAreLoggedAsAnError) {
    DELIVERD_NEEDS_REAL_KAFKA();
    RecordingLog log;
    const auto topics = real_topics();
    const auto topic = topics.make("a");
    put(topics.brokers(), numbered(topic, 0, 20));
    {
        const auto source = topics.source(log);
        ASSERT_EQ(read(*source, 10).size(), 10U);
        ASSERT_TRUE(source->commit(10s));
    }
    EXPECT_THAT(log.text(), Not(HasSubstr("lost")));
    const auto client = sink::make_client(RD_KAFKA_PRODUCER, {{"bootstrap.servers", topics.brokers()}});
    rd_kafka_topic_partition_list_t* before = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(before, topic.c_str(), 0)->offset = 15;
    rd_kafka_DeleteRecords_t* wanted = rd_kafka_DeleteRecords_new(before);
    rd_kafka_queue_t* queue = rd_kafka_queue_new(client.get());
    rd_kafka_DeleteRecords(client.get(), &wanted, 1, nullptr, queue);
    rd_kafka_event_t* event = rd_kafka_queue_poll(queue, sink::kAnswerMs);
    ASSERT_NE(event, nullptr);
    EXPECT_EQ(rd_kafka_event_error(event), RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_DeleteRecords_destroy(wanted);
    rd_kafka_topic_partition_list_destroy(before);

    EXPECT_THAT(values_of(read(*topics.source(log), 5)), ElementsAreArray(numbers(15, 5)));
    EXPECT_THAT(log.text(), HasSubstr("dead letters were lost before they were read"));
    EXPECT_THAT(log.text(), HasSubstr(topic + " [0]"));
}

TEST(KafkaSource, ATopicThatIsDeletedAndCreatedAgainIsReadFromItsBeginning) {
    DELIVERD_NEEDS_REAL_KAFKA();
    RecordingLog log;
    const auto topics = real_topics();
    const auto topic = topics.make("a");
    put(topics.brokers(), numbered(topic, 0, 10));
    const auto source = topics.source(log);
    ASSERT_EQ(read(*source, 10).size(), 10U);
    ASSERT_TRUE(source->commit(10s));
    const auto client = sink::make_client(RD_KAFKA_PRODUCER, {{"bootstrap.servers", topics.brokers()}});
    rd_kafka_DeleteTopic_t* wanted = rd_kafka_DeleteTopic_new(topic.c_str());
    rd_kafka_queue_t* queue = rd_kafka_queue_new(client.get());
    rd_kafka_DeleteTopics(client.get(), &wanted, 1, nullptr, queue);
    rd_kafka_event_t* event = rd_kafka_queue_poll(queue, sink::kAnswerMs);
    ASSERT_NE(event, nullptr);
    EXPECT_EQ(rd_kafka_event_error(event), RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_DeleteTopic_destroy(wanted);
    sink::create_topic(topics.brokers(), topic, 1);
    put(topics.brokers(), numbered(topic, 100, 3));
    EXPECT_THAT(values_of(read(*source, 3)), ElementsAre("100", "101", "102"));
    EXPECT_TRUE(source->commit(10s));
}

TEST(KafkaSource, Sasl) {
    DELIVERD_NEEDS_REAL_KAFKA();
    RecordingLog log;
    const auto topics = real_topics();
    put(topics.brokers(), {plain(topics.make("a"), "1")});
    auto options = topics.options();
    options.brokers = sink::from_environment("DELIVERD_TEST_KAFKA_SASL_BROKERS");
    options.librdkafka = {{"security.protocol", "sasl_plaintext"},
                          {"sasl.mechanism", "PLAIN"},
                          {"sasl.username", "deliverd"},
                          {"sasl.password", "Wr0ngPassword"}};
    const auto wrong = topics.source(options, log);
    poll_until(
        *wrong, [](const auto& records) { EXPECT_EQ(records.size(), 0U); },
        [&] { return log.text().find("uthentication") != std::string::npos; });
    EXPECT_THAT(log.text(), Not(HasSubstr("Wr0ngPassword")));
    options.librdkafka.back().second = "kafka-secret";
    const auto right = topics.source(options, log);
    auto records = read(*right, 1);
    EXPECT_THAT(values_of(records), ElementsAre("1"));
    EXPECT_TRUE(right->commit(10s));
    ReplayerOptions replay;
    replay.librdkafka = options.librdkafka;
    EXPECT_EQ(replayer_to(options.brokers, log, replay)->publish(records)[0].kind, OutcomeKind::delivered);
}

}  // namespace
}  // namespace deliverd::deadletter
