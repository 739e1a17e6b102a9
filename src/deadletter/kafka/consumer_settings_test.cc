#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deadletter/kafka/consumer.h"
#include "deadletter/kafka/record_source.h"
#include "deadletter/kafka/replayer.h"

namespace deliverd::deadletter {
namespace {

using testing::HasSubstr;
using testing::Not;

RecordSourceOptions options_with(const std::string& name, const std::string& value) {
    RecordSourceOptions options;
    options.brokers = "127.0.0.1:9092";
    options.librdkafka = {{name, value}};
    return options;
}

std::string refusal(const RecordSourceOptions& options) {
    const auto checked = check_record_source_options(options);
    if (checked) return "";
    EXPECT_EQ(checked.error().error_class, ErrorClass::permanent);
    return checked.error().message;
}

/// What librdkafka is told for `name`.
std::string in_force(const RecordSourceOptions& options, const char* name) {
    const auto conf = make_consumer_conf(options);
    if (!conf) return conf.error().message;
    std::array<char, 64> value{};
    std::size_t size = value.size();
    EXPECT_EQ(rd_kafka_conf_get(conf->get(), name, value.data(), &size), RD_KAFKA_CONF_OK);
    return value.data();
}

TEST(ConsumerSettings, SettingsThatWouldBreakAPromiseAreRefusedWithAReason) {
    const std::pair<const char*, const char*> cases[] = {
        {"group.id", "kafka.consumer_group"},
        {"group.instance.id", "come and go"},
        {"enable.auto.commit", "stored"},
        {"auto.commit.enable", "stored"},
        {"enable.auto.offset.store", "stored"},
        {"auto.offset.reset", "every dead letter"},
        {"partition.assignment.strategy", "same"},
        {"bootstrap.servers", "brokers"},
        {"rebalance_cb", "code"},
        {"plugin.library.paths", "code"},
        {"test.mock.num.brokers", "mock broker"},
    };
    for (const auto& [name, why] : cases) {
        const auto message = refusal(options_with(name, "1"));
        EXPECT_THAT(message, HasSubstr(std::string("'") + name + "'"));
        EXPECT_THAT(message, HasSubstr(why));
    }
}

TEST(ConsumerSettings, ProducerSettingsAreCheckedAndIgnored) {
    EXPECT_EQ(refusal(options_with("linger.ms", "5")), "");
    EXPECT_EQ(refusal(options_with("compression.type", "zstd")), "");
    EXPECT_THAT(refusal(options_with("linger.ms", "long")), HasSubstr("linger.ms"));
    EXPECT_THAT(refusal(options_with("sasl.user.name", "u")), HasSubstr("did you mean 'sasl.username'?"));
    EXPECT_EQ(in_force(options_with("linger.ms", "77"), "linger.ms"), "5");
}

TEST(ConsumerSettings, NewTopicsAreSearchedForOftenEnough) {
    constexpr int kPromisedMs = 10'000;
    EXPECT_LE(2 * std::stoi(in_force(options_with("client.rack", "r"), "topic.metadata.refresh.interval.ms")),
              kPromisedMs)
        << "half of it is left for joining the group anew";
}

TEST(ConsumerSettings, AValueIsNeverRepeated) {
    for (const char* name : {"socket.timeout.ms", "security.protocol", "sasl.mechanismm"}) {
        const auto message = refusal(options_with(name, "S3CRET-VALUE"));
        EXPECT_THAT(message, HasSubstr(name));
        EXPECT_THAT(message, Not(HasSubstr("S3CRET-VALUE")));
    }
}

TEST(ConsumerSettings, WhatLibrdkafkaRefusesOnlyAtItsStartIsRefusedToo) {
    auto options = options_with("ssl.ca.location", "/nonexistent/ca.pem");
    options.librdkafka.emplace_back("security.protocol", "ssl");
    EXPECT_THAT(refusal(options), HasSubstr("ssl.ca.location"));
    EXPECT_EQ(refusal(options_with("session.timeout.ms", "400000")).empty(), false);  // beyond max.poll.interval.ms
}

TEST(ConsumerSettings, BrokersGroupAndPatternAreChecked) {
    RecordSourceOptions options;
    EXPECT_THAT(refusal(options), HasSubstr("no Kafka brokers"));
    options.brokers = "http://a:9092";
    EXPECT_THAT(refusal(options), HasSubstr("HOST:PORT"));
    options.brokers = "a:9092,b:9092";
    EXPECT_EQ(refusal(options), "");
    options.topic_pattern = "a b";
    EXPECT_THAT(refusal(options), HasSubstr("'a b'"));
    options.topic_pattern = "*";
    options.group = "";
    EXPECT_THAT(refusal(options), HasSubstr("group"));
    options.group = "g";
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1} << 40U}) {
        options.prefetch_bytes = bytes;  // bounded, not refused
        EXPECT_EQ(refusal(options), "");
    }
}

TEST(ReplayerSettings, AreTheSinksExceptForKeys) {
    ReplayerOptions options;
    EXPECT_FALSE(check_replayer_options(options));
    options.brokers = "127.0.0.1:9092";
    EXPECT_TRUE(check_replayer_options(options));
    options.librdkafka = {{"partitioner", "consistent_random"}, {"fetch.min.bytes", "1"}};
    EXPECT_TRUE(check_replayer_options(options));
    options.librdkafka = {{"acks", "1"}};
    EXPECT_THAT(check_replayer_options(options).error().message, HasSubstr("acks"));
}

}  // namespace
}  // namespace deliverd::deadletter
