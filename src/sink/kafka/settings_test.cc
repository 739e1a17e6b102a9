#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "sink/kafka/kafka_sink.h"
#include "sink/kafka/producer.h"

namespace deliverd::sink {
namespace {

using testing::HasSubstr;
using testing::Not;

KafkaSinkOptions options_with(const std::string& name, const std::string& value) {
    KafkaSinkOptions options;
    options.brokers = "127.0.0.1:9092";
    options.librdkafka = {{name, value}};
    return options;
}

std::string refusal(const KafkaSinkOptions& options) {
    const auto checked = check_kafka_options(options);
    if (checked) return "";
    EXPECT_EQ(checked.error().error_class, ErrorClass::permanent);
    return checked.error().message;
}

TEST(KafkaSettings, SettingsThatWouldBreakAPromiseAreRefusedWithAReason) {
    const std::pair<const char*, const char*> cases[] = {
        {"acks", "idempotent"},
        {"request.required.acks", "idempotent"},
        {"enable.idempotence", "idempotent"},
        {"message.timeout.ms", "timeout_ms"},
        {"delivery.timeout.ms", "timeout_ms"},
        {"bootstrap.servers", "brokers"},
        {"metadata.broker.list", "brokers"},
        {"transactional.id", "transactions"},
        {"delivery.report.only.error", "report"},
        {"dr_msg_cb", "code"},
        {"plugin.library.paths", "code"},
        {"test.mock.num.brokers", "mock broker"},
        {"queuing.strategy", "order"},
    };
    for (const auto& [name, why] : cases) {
        const auto message = refusal(options_with(name, "1"));
        EXPECT_THAT(message, HasSubstr(std::string("'") + name + "'"));
        EXPECT_THAT(message, HasSubstr(why));
    }
    EXPECT_THAT(refusal(options_with("partitioner", "random")), HasSubstr("order"));
    EXPECT_THAT(refusal(options_with("partitioner", "consistent_random")), HasSubstr("write consistent"));
    EXPECT_EQ(refusal(options_with("partitioner", "consistent")), "");
}

TEST(KafkaSettings, ConsumerSettingsAreCheckedAndIgnored) {
    EXPECT_EQ(refusal(options_with("fetch.min.bytes", "1")), "");
    EXPECT_THAT(refusal(options_with("fetch.min.bytes", "many")), HasSubstr("fetch.min.bytes"));
    const auto conf = make_conf(options_with("fetch.min.bytes", "77"), Batching::many);
    ASSERT_TRUE(conf);
    std::array<char, 64> value{};
    std::size_t size = value.size();
    ASSERT_EQ(rd_kafka_conf_get(conf->get(), "fetch.min.bytes", value.data(), &size), RD_KAFKA_CONF_OK);
    EXPECT_STREQ(value.data(), "1");
}

TEST(KafkaSettings, WithoutKeysAnyPartitionerIsAllowed) {
    for (const char* partitioner : {"random", "consistent_random", "murmur2"}) {
        auto options = options_with("partitioner", partitioner);
        options.null_keys = true;
        EXPECT_EQ(refusal(options), "");
    }
}

TEST(KafkaSettings, AWrongNameGetsTheNearestRightOne) {
    EXPECT_THAT(refusal(options_with("sasl.user.name", "u")), HasSubstr("did you mean 'sasl.username'?"));
    EXPECT_THAT(refusal(options_with("batch.sise", "1")), HasSubstr("did you mean 'batch.size'?"));
    EXPECT_THAT(refusal(options_with("complete.nonsense.here", "u")), Not(HasSubstr("did you mean")));
}

TEST(KafkaSettings, AValueIsNeverRepeated) {
    for (const char* name : {"socket.timeout.ms", "security.protocol", "sasl.mechanismm", "compression.type"}) {
        const auto message = refusal(options_with(name, "S3CRET-VALUE"));
        EXPECT_THAT(message, HasSubstr(name));
        EXPECT_THAT(message, Not(HasSubstr("S3CRET-VALUE")));
    }
}

TEST(KafkaSettings, WhatLibrdkafkaRefusesOnlyAtItsStartIsRefusedToo) {
    auto options = options_with("ssl.ca.location", "/nonexistent/ca.pem");
    options.librdkafka.emplace_back("security.protocol", "ssl");
    EXPECT_THAT(refusal(options), HasSubstr("ssl.ca.location"));
    EXPECT_THAT(refusal(options_with("max.in.flight", "100")), HasSubstr("in.flight"));
    KafkaSinkOptions lingering;
    lingering.brokers = "127.0.0.1:9092";
    lingering.linger = lingering.timeout * 2;
    EXPECT_THAT(refusal(lingering), HasSubstr("linger.ms"));
}

TEST(KafkaSettings, Brokers) {
    KafkaSinkOptions options;
    EXPECT_THAT(refusal(options), HasSubstr("no Kafka brokers"));
    for (const char* good : {"localhost", "a:9092", "a:9092,b:9093", "[::1]:9092", "10.0.0.1:1"}) {
        options.brokers = good;
        EXPECT_EQ(refusal(options), "");
    }
    for (const char* bad : {",", "a:9092,", "a:", ":9092", "a:port", "a b:9092", "http://a:9092", "a:999999"}) {
        options.brokers = bad;
        EXPECT_THAT(refusal(options), HasSubstr("HOST:PORT")) << bad;
    }
    options.brokers = "user:s3cret@a:9092";
    EXPECT_THAT(refusal(options), AllOf(HasSubstr("HOST:PORT"), Not(HasSubstr("s3cret"))));
}

TEST(KafkaSettings, CompressionAndTimeoutAreChecked) {
    KafkaSinkOptions options;
    options.brokers = "a:9092";
    options.compression = "brotli";
    EXPECT_THAT(refusal(options), HasSubstr("compression.type"));
    options.compression = "zstd";
    EXPECT_EQ(refusal(options), "");
    options.timeout = Duration::zero();
    EXPECT_THAT(refusal(options), HasSubstr("timeout"));
}

TEST(KafkaSettings, SecretsAreHidden) {
    auto options = options_with("sasl.password", "hunter2");
    options.librdkafka.emplace_back("ssl.key.password", "swordfish");
    options.librdkafka.emplace_back("sasl.username", "public");
    const Secrets secrets(options.librdkafka);
    EXPECT_EQ(secrets.hidden("public says hunter2,\nhunter2 and swordfish", 100), "public says ***, *** and ***");
    EXPECT_EQ(secrets.hidden("0123456789", 8), "01234…");
}

}  // namespace
}  // namespace deliverd::sink
