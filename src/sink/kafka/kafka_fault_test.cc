// Brokers that die, hang, refuse and come back. Where a fault has to come at a certain moment or no broker makes it on
// demand, librdkafka's mock cluster makes it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "base/testing/recording_log.h"
#include "sink/kafka/kafka_sink.h"
#include "sink/kafka/testing/broker.h"
#include "sink/kafka/testing/events.h"
#include "sink/testing/stop_contract.h"

namespace deliverd::sink {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class KafkaFault : public testing::Test {
protected:
    std::unique_ptr<Sink> sink_to(const std::string& brokers, KafkaSinkOptions options = {}) {
        options.brokers = brokers;
        auto made = make_kafka_sink(std::move(options), log_);
        if (!made) throw std::runtime_error(made.error().message);
        return std::move(*made);
    }

    RecordingLog log_;
};

TEST_F(KafkaFault, WithoutABrokerNothingIsTried) {
    KafkaSinkOptions options;
    options.timeout = 2s;
    const auto sink = sink_to("127.0.0.1:1", options);
    const auto outcome = send_until(*sink, test_event(1, "t"), kBrokerUnreachable);
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
    EXPECT_EQ(outcome.code, kBrokerUnreachable);
    EXPECT_TRUE(outcome.not_attempted);
    EXPECT_THAT(outcome.detail, HasSubstr("refused"));
    const auto checked = sink->check(10s);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().error_class, ErrorClass::retryable);
    EXPECT_THAT(checked.error().message, HasSubstr("127.0.0.1:1"));
    EXPECT_THAT(checked.error().message, HasSubstr("refused"));
}

TEST_F(KafkaFault, AHostThatDoesNotExistIsNamed) {
    const auto sink = sink_to("no-such-host.invalid:9092");
    const auto checked = sink->check(20s);
    ASSERT_FALSE(checked);
    EXPECT_THAT(checked.error().message, HasSubstr("no-such-host.invalid"));
    EXPECT_THAT(checked.error().message, HasSubstr("resolve"));
}

/// Resends what did not arrive, one at a time a key, as a relay does, until everything has.
class Resender {
public:
    Resender(Sink& sink, const std::vector<Message>& messages) : sink_(sink) {
        for (const auto& message : messages) {
            waiting_[message.key].push_back(&message);
            key_of_[message.id] = message.key;
            ++left_;
        }
    }

    /// Sends the first of each key that is free.
    void send_ready() {
        std::vector<const Message*> ready;
        for (auto& [key, queue] : waiting_) {
            if (!queue.empty() && busy_.insert(key).second) ready.push_back(queue.front());
        }
        if (ready.empty()) return;
        sent_ += ready.size();
        sink_.send(ready, outcomes_);
    }

    /// Settles what came in: exactly one outcome for each that was sent.
    void settle() {
        for (const auto& [id, got] : outcomes_.take()) {
            EXPECT_EQ(got.size(), 1U) << "message " << id;
            ++settled_;
            const auto& key = key_of_.at(id);
            busy_.erase(key);
            if (got[0].not_attempted) ++not_attempted_;
            if (got[0].kind != OutcomeKind::delivered) continue;
            waiting_[key].erase(waiting_[key].begin());
            --left_;
        }
    }

    /// Until something more comes in, or for a moment where nothing is under way.
    void wait() { static_cast<void>(outcomes_.wait_for(settled_ + 1, 20ms)); }

    [[nodiscard]] std::size_t left() const { return left_; }
    [[nodiscard]] bool nothing_under_way() const { return sent_ == settled_; }
    [[nodiscard]] std::size_t not_attempted() const { return not_attempted_; }

private:
    Sink& sink_;
    Collector outcomes_;
    std::map<std::string, std::vector<const Message*>> waiting_;
    std::map<std::int64_t, std::string> key_of_;
    std::set<std::string> busy_;
    std::size_t not_attempted_ = 0;
    std::size_t left_ = 0;
    std::size_t sent_ = 0;
    std::size_t settled_ = 0;
};

/// The first arrivals of each key, in the order of the topic.
std::map<std::string, std::vector<std::string>> first_arrivals(const std::vector<Record>& records) {
    std::map<std::string, std::vector<std::string>> out;
    std::set<std::string> seen;
    for (const auto& record : records) {
        if (seen.insert(record.value.value_or("")).second) out[record.key].push_back(record.value.value_or(""));
    }
    return out;
}

TEST_F(KafkaFault, ABrokerThatDiesAndReturnsLosesNothingAndKeepsTheOrder) {
    DELIVERD_NEEDS_REAL_KAFKA();
    OwnBroker kafka;
    const auto topic = fresh_topic();
    create_topic(kafka.brokers(), topic, 4);
    std::vector<Message> messages;
    constexpr int kKeys = 400;
    constexpr int kEach = 50;
    for (int i = 0; i < kKeys * kEach; ++i) {
        messages.push_back(test_event(i, topic, std::to_string(i)));
        messages.back().key = "key-" + std::to_string(i % kKeys);
    }
    KafkaSinkOptions options;
    options.timeout = 4s;
    const auto sink = sink_to(kafka.brokers(), options);
    Resender resender(*sink, messages);
    const auto end = std::chrono::steady_clock::now() + 2 * kBrokerPatience;
    const auto relay_until = [&](auto done) {
        while (!done()) {
            ASSERT_LT(std::chrono::steady_clock::now(), end) << resender.left() << " left";
            resender.send_ready();
            resender.wait();
            resender.settle();
        }
    };
    relay_until([&] { return resender.left() < 15'000; });
    kafka.command("kill9");
    relay_until([&] { return resender.not_attempted() > 0; });
    kafka.command("start");
    relay_until([&] { return resender.left() < 7'000; });
    kafka.command("kill9");
    kafka.command("start");  // back before anything times out
    relay_until([&] { return resender.left() == 0 && resender.nothing_under_way(); });
    const auto arrived = first_arrivals(read_topic(kafka.brokers(), topic));
    ASSERT_EQ(arrived.size(), static_cast<std::size_t>(kKeys));
    for (const auto& [key, values] : arrived) {
        std::vector<int> numbers;
        for (const auto& value : values) numbers.push_back(std::stoi(value));
        EXPECT_EQ(numbers.size(), static_cast<std::size_t>(kEach)) << key;
        EXPECT_TRUE(std::ranges::is_sorted(numbers)) << key;
    }
    EXPECT_LT(log_.events().size(), 200U);
}

TEST_F(KafkaFault, ABrokerThatHangsLeavesMessagesInDoubtAndIsFoundAgain) {
    DELIVERD_NEEDS_REAL_KAFKA();
    OwnBroker kafka;
    const auto topic = fresh_topic();
    create_topic(kafka.brokers(), topic, 1);
    KafkaSinkOptions options;
    options.timeout = 2s;
    const auto sink = sink_to(kafka.brokers(), options);
    // A broker that has just started may take longer than that the first time, and one that was paused.
    ASSERT_EQ(send_until(*sink, test_event(0, topic, "0"), "").kind, OutcomeKind::delivered);
    kafka.command("pause");
    const auto outcome = send_to_broker(*sink, test_event(1, topic, "1"));
    EXPECT_EQ(outcome.kind, OutcomeKind::ambiguous);
    EXPECT_EQ(outcome.code, "KAFKA_TIMEOUT");
    EXPECT_THAT(outcome.detail, HasSubstr("2 s"));
    EXPECT_TRUE(send_until(*sink, test_event(2, topic, "2"), kBrokerUnreachable).not_attempted);
    kafka.command("resume");
    EXPECT_EQ(send_until(*sink, test_event(3, topic, "3"), "").kind, OutcomeKind::delivered);
    std::vector<std::string> values;
    for (const auto& record : read_topic(kafka.brokers(), topic)) values.push_back(*record.value);
    EXPECT_GE(std::ranges::count(values, "0"), 1);
    EXPECT_GE(std::ranges::count(values, "3"), 1);
}

TEST_F(KafkaFault, StopDuringAnOutageSaysWhatIsKnown) {
    const MockCluster kafka;
    const auto topic = kafka.new_topic();
    KafkaSinkOptions options;
    options.timeout = 60s;
    options.librdkafka = {{"batch.num.messages", "1"}};  // several requests, of which few can be in flight
    const auto sink = sink_to(kafka.brokers(), options);
    ASSERT_EQ(send_to_broker(*sink, test_event(0, topic)).kind, OutcomeKind::delivered);
    rd_kafka_mock_broker_set_rtt(kafka.get(), 1, 30'000);  // takes what is sent, and answers too late
    std::vector<Message> messages;
    for (int i = 1; i <= 200; ++i) messages.push_back(test_event(i, topic));
    Collector outcomes;
    sink->send(pointers_to(messages), outcomes);
    const StoppedMessages stopped = stop_and_count(*sink, 3s, messages, outcomes);  // some have to leave the queue
    EXPECT_GT(stopped.in_doubt, 0U);
    EXPECT_GT(stopped.not_sent, 0U);
}

TEST_F(KafkaFault, StopDuringTrafficGivesEveryMessageOneOutcome) {
    const AnyBroker kafka;
    const auto topic = kafka.new_topic(4);
    const auto sink = sink_to(kafka.brokers());
    std::vector<Message> messages;
    for (int i = 0; i < 20'000; ++i) messages.push_back(test_event(i, topic, std::to_string(i)));
    const auto all = pointers_to(messages);
    Collector outcomes;
    std::thread sender([&] {
        for (std::size_t at = 0; at < all.size(); at += 100) sink->send(std::span(all).subspan(at, 100), outcomes);
    });
    ASSERT_TRUE(outcomes.wait_for(500, kBrokerPatience));
    sink->stop(0s);
    sender.join();
    ASSERT_EQ(outcomes.count(), messages.size());
    std::set<std::string> known;
    std::size_t open = 0;
    for (const auto& [id, got] : outcomes.take()) {
        EXPECT_EQ(got.size(), 1U);
        if (got[0].kind == OutcomeKind::delivered) known.insert(std::to_string(id));
        if (got[0].kind == OutcomeKind::ambiguous) ++open;
    }
    std::set<std::string> arrived;
    for (const auto& record : read_topic(kafka.brokers(), topic)) arrived.insert(*record.value);
    EXPECT_TRUE(std::ranges::includes(arrived, known));
    EXPECT_LE(arrived.size(), known.size() + open);  // what was called unsent is not there
}

TEST_F(KafkaFault, AFullQueueLosesNothing) {
    const AnyBroker kafka;
    const auto topic = kafka.new_topic();
    KafkaSinkOptions options;
    options.linger = 200ms;
    options.librdkafka = {{"queue.buffering.max.messages", "100"}};
    const auto sink = sink_to(kafka.brokers(), options);
    std::vector<Message> messages;
    for (int i = 0; i < 300; ++i) messages.push_back(test_event(i, topic));
    Collector outcomes;
    sink->send(pointers_to(messages), outcomes);
    ASSERT_TRUE(outcomes.wait_for(messages.size(), kBrokerPatience));
    std::map<std::string, std::size_t> codes;
    for (const auto& [id, got] : outcomes.take()) ++codes[got[0].code];
    EXPECT_GE(codes["QUEUE_FULL"], 1U);
    EXPECT_EQ(codes[""] + codes["QUEUE_FULL"], 300U);
    EXPECT_EQ(read_topic(kafka.brokers(), topic).size(), codes[""]);
}

TEST_F(KafkaFault, AProducerThatGaveUpIsReplaced) {
    const MockCluster kafka;
    const auto topic = kafka.new_topic();
    const auto sink = sink_to(kafka.brokers());
    ASSERT_EQ(send_to_broker(*sink, test_event(0, topic, "0")).kind, OutcomeKind::delivered);
    constexpr std::int16_t kProduceRequest = 0;
    rd_kafka_mock_push_request_errors(kafka.get(), kProduceRequest, 1, RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED);
    rd_kafka_mock_push_request_errors(kafka.get(), kProduceRequest, 1, RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    const auto refused = send_to_broker(*sink, test_event(1, topic, "1"));
    EXPECT_EQ(refused.kind, OutcomeKind::retryable);
    const auto outcome = send_until(*sink, test_event(2, topic, "2"), "");
    EXPECT_EQ(outcome.kind, OutcomeKind::delivered) << outcome.code << " " << outcome.detail;
    EXPECT_THAT(log_.text(), HasSubstr("a Kafka producer was replaced"));
}

TEST_F(KafkaFault, ARequestThatBreaksOffIsNotDoubled) {
    const MockCluster kafka;
    const auto topic = kafka.new_topic();
    const auto sink = sink_to(kafka.brokers());
    ASSERT_EQ(send_to_broker(*sink, test_event(0, topic, "0")).kind, OutcomeKind::delivered);
    constexpr std::int16_t kProduceRequest = 0;
    rd_kafka_mock_push_request_errors(kafka.get(), kProduceRequest, 3, RD_KAFKA_RESP_ERR__TRANSPORT,
                                      RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT);
    for (int i = 1; i < 10; ++i) {
        EXPECT_EQ(send_to_broker(*sink, test_event(i, topic, std::to_string(i))).kind, OutcomeKind::delivered);
    }
    std::vector<std::string> values;
    for (const auto& record : read_topic(kafka.brokers(), topic)) values.push_back(*record.value);
    EXPECT_THAT(values, testing::ElementsAre("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"));
}

/// Answers every produce request with `error` from now on.
void refuse_all(const MockCluster& kafka, rd_kafka_resp_err_t error) {
    constexpr std::int16_t kProduceRequest = 0;
    const std::vector<rd_kafka_resp_err_t> errors(10'000, error);  // more than there will be requests
    rd_kafka_mock_push_request_errors_array(kafka.get(), kProduceRequest, errors.size(), errors.data());
}

void refuse_none(const MockCluster& kafka) {
    constexpr std::int16_t kProduceRequest = 0;
    rd_kafka_mock_clear_request_errors(kafka.get(), kProduceRequest);
}

TEST_F(KafkaFault, ABrokerWithTooFewReplicasCostsNoAttempt) {
    const MockCluster kafka;
    const auto topic = kafka.new_topic();
    KafkaSinkOptions options;
    options.timeout = 4s;
    const auto sink = sink_to(kafka.brokers(), options);
    ASSERT_EQ(send_to_broker(*sink, test_event(0, topic, "0")).kind, OutcomeKind::delivered);
    refuse_all(kafka, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS);
    const auto outcome = send_to_broker(*sink, test_event(1, topic, "1"));
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
    EXPECT_TRUE(outcome.not_attempted);
    EXPECT_EQ(outcome.code, "KAFKA_TIMEOUT");
    EXPECT_THAT(outcome.detail, HasSubstr("min.insync.replicas"));
    refuse_none(kafka);
    EXPECT_EQ(send_to_broker(*sink, test_event(1, topic, "1")).kind, OutcomeKind::delivered);
    std::vector<std::string> values;
    for (const auto& record : read_topic(kafka.brokers(), topic)) values.push_back(*record.value);
    EXPECT_THAT(values, testing::ElementsAre("0", "1"));
}

TEST_F(KafkaFault, TooFewReplicasAfterAppendingIsAmbiguous) {
    const MockCluster kafka;
    const auto topic = kafka.new_topic();
    KafkaSinkOptions options;
    options.timeout = 4s;
    const auto sink = sink_to(kafka.brokers(), options);
    ASSERT_EQ(send_to_broker(*sink, test_event(0, topic)).kind, OutcomeKind::delivered);
    refuse_all(kafka, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND);
    const auto outcome = send_to_broker(*sink, test_event(1, topic));
    EXPECT_EQ(outcome.kind, OutcomeKind::ambiguous) << outcome.code;
    EXPECT_FALSE(outcome.not_attempted);
}

TEST_F(KafkaFault, APartitionWithoutALeaderCostsNoAttempt) {
    const MockCluster kafka;
    const auto topic = kafka.new_topic();
    KafkaSinkOptions options;
    options.timeout = 2s;
    rd_kafka_mock_partition_set_leader(kafka.get(), topic.c_str(), 0, -1);
    const auto sink = sink_to(kafka.brokers(), options);
    const auto outcome = send_to_broker(*sink, test_event(1, topic));
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
    EXPECT_TRUE(outcome.not_attempted);
    EXPECT_EQ(outcome.code, "KAFKA_TIMEOUT");
    rd_kafka_mock_partition_set_leader(kafka.get(), topic.c_str(), 0, 1);
    EXPECT_EQ(send_until(*sink, test_event(1, topic), "").kind, OutcomeKind::delivered);
}

TEST_F(KafkaFault, AnAnswerOfADegradedBrokerCostsNoAttemptEither) {
    const MockCluster kafka;
    const auto topic = kafka.new_topic();
    KafkaSinkOptions options;
    options.librdkafka = {{"retries", "1"}};
    const auto sink = sink_to(kafka.brokers(), options);
    ASSERT_EQ(send_to_broker(*sink, test_event(0, topic)).kind, OutcomeKind::delivered);
    refuse_all(kafka, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS);
    const auto outcome = send_to_broker(*sink, test_event(1, topic));
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
    EXPECT_EQ(outcome.code, "BROKER_DEGRADED");
    EXPECT_TRUE(outcome.not_attempted);
}

TEST_F(KafkaFault, ATopicTheUserMayNotWriteIsReported) {
    const MockCluster kafka;
    const auto topic = kafka.new_topic();
    const auto sink = sink_to(kafka.brokers());
    ASSERT_EQ(send_to_broker(*sink, test_event(0, topic)).kind, OutcomeKind::delivered);
    constexpr std::int16_t kProduceRequest = 0;
    rd_kafka_mock_push_request_errors(kafka.get(), kProduceRequest, 1, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    const auto outcome = send_to_broker(*sink, test_event(1, topic));
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
    EXPECT_EQ(outcome.code, "NOT_AUTHORIZED");
    EXPECT_THAT(outcome.detail, HasSubstr(topic));
}

}  // namespace
}  // namespace deliverd::sink
