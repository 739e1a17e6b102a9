// SASL and TLS, right and wrong, against the doors of a real broker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/testing/recording_log.h"
#include "sink/kafka/kafka_sink.h"
#include "sink/kafka/testing/broker.h"
#include "sink/kafka/testing/events.h"

namespace deliverd::sink {
namespace {

using namespace std::chrono_literals;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::unique_ptr<Sink> sink_to(const std::string& brokers, Log& log, KafkaSinkOptions options = {}) {
    options.brokers = brokers;
    auto made = make_kafka_sink(std::move(options), log);
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(*made);
}

KafkaSinkOptions sasl(const std::string& password) {
    KafkaSinkOptions options;
    options.librdkafka = {{"security.protocol", "sasl_plaintext"},
                          {"sasl.mechanism", "PLAIN"},
                          {"sasl.username", "deliverd"},
                          {"sasl.password", password}};
    return options;
}

TEST(KafkaSecurity, Sasl) {
    DELIVERD_NEEDS_REAL_KAFKA();
    RecordingLog log;
    const auto brokers = from_environment("DELIVERD_TEST_KAFKA_SASL_BROKERS");
    const auto topic = fresh_topic();
    create_topic(from_environment("DELIVERD_TEST_KAFKA_BROKERS"), topic, 1);
    const auto right = sink_to(brokers, log, sasl("kafka-secret"));
    EXPECT_TRUE(right->check(20s));
    EXPECT_EQ(send_to_broker(*right, test_event(1, topic)).kind, OutcomeKind::delivered);

    const auto wrong = sink_to(brokers, log, sasl("Wr0ngPassword"));
    const auto checked = wrong->check(20s);
    ASSERT_FALSE(checked);
    EXPECT_THAT(checked.error().message, HasSubstr("uthentication"));
    const auto outcome = send_until(*wrong, test_event(2, topic), kBrokerUnreachable);
    EXPECT_TRUE(outcome.not_attempted);
    EXPECT_THAT(outcome.detail, HasSubstr("uthentication"));
    for (const auto& text : {checked.error().message, outcome.detail, log.text()}) {
        EXPECT_THAT(text, Not(HasSubstr("Wr0ngPassword")));
    }

    const auto none = sink_to(brokers, log);  // speaks no SASL at all
    const auto plain = none->check(20s);
    ASSERT_FALSE(plain);
    EXPECT_THAT(plain.error().message, AnyOf(HasSubstr("SASL"), HasSubstr("security.protocol")));
}

TEST(KafkaSecurity, APasswordThatChangedIsReadFromItsFileForTheNextLogin) {
    DELIVERD_NEEDS_REAL_KAFKA();
    const auto path = std::filesystem::temp_directory_path() / ("deliverd_sink_password_" + std::to_string(::getpid()));
    const auto write = [&](std::string_view password) { std::ofstream(path, std::ios::trunc) << password << "\n"; };
    OwnBroker kafka;
    const auto topic = fresh_topic();
    create_topic(kafka.brokers(), topic, 1);
    write("kafka-secret");
    auto options = sasl("kafka-secret");
    options.timeout = 10s;
    options.password_file = path;
    RecordingLog log;
    const auto sink = sink_to(kafka.sasl_brokers(), log, options);
    ASSERT_EQ(send_to_broker(*sink, test_event(1, topic, "1")).kind, OutcomeKind::delivered);

    kafka.command("set_password sec0nd-word");
    kafka.command("stop");
    kafka.command("start");
    Outcome refused;
    const auto end = std::chrono::steady_clock::now() + kBrokerPatience;
    while (refused.detail.find("uthentication") == std::string::npos && std::chrono::steady_clock::now() < end) {
        refused = send_to_broker(*sink, test_event(2, topic, "2"));
    }
    EXPECT_THAT(refused.detail, HasSubstr("uthentication"));
    EXPECT_TRUE(refused.not_attempted);
    write("sec0nd-word");
    EXPECT_EQ(send_until(*sink, test_event(2, topic, "2"), "").kind, OutcomeKind::delivered);
    EXPECT_TRUE(sink->check(20s)) << "a client that is made now";
    std::filesystem::remove(path);

    std::vector<std::string> arrived;
    for (const auto& record : read_topic(kafka.brokers(), topic)) arrived.push_back(*record.value);
    EXPECT_THAT(arrived, ElementsAre("1", "2"));
    for (const char* word : {"kafka-secret", "sec0nd-word"}) EXPECT_THAT(log.text(), Not(HasSubstr(word)));
}

TEST(KafkaSecurity, Tls) {
    DELIVERD_NEEDS_REAL_KAFKA();
    RecordingLog log;
    const auto brokers = from_environment("DELIVERD_TEST_KAFKA_SSL_BROKERS");
    KafkaSinkOptions right;
    right.librdkafka = {{"security.protocol", "ssl"},
                        {"ssl.ca.location", from_environment("DELIVERD_TEST_KAFKA_CA_FILE")}};
    EXPECT_TRUE(sink_to(brokers, log, right)->check(20s));

    KafkaSinkOptions stranger;
    stranger.librdkafka = {{"security.protocol", "ssl"}};
    const auto unknown = sink_to(brokers, log, stranger)->check(20s);
    ASSERT_FALSE(unknown);
    EXPECT_THAT(unknown.error().message, HasSubstr("certificate"));

    const auto plain = sink_to(brokers, log)->check(20s);
    ASSERT_FALSE(plain);
    EXPECT_THAT(plain.error().message, HasSubstr("security.protocol"));

    const auto tls_to_plain = sink_to(from_environment("DELIVERD_TEST_KAFKA_BROKERS"), log, right)->check(20s);
    ASSERT_FALSE(tls_to_plain);
    EXPECT_THAT(tls_to_plain.error().message, HasSubstr("SSL"));
}

}  // namespace
}  // namespace deliverd::sink
