#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "config/load.h"

namespace deliverd::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

LoadedConfig load(const std::string& yaml) {
    return load_config_text(yaml, "c.yaml", {}, [](const std::string&) { return std::nullopt; });
}

/// The file that the dead-letter manager's source document shows, letter by letter.
std::string seed_file() {
    std::ifstream file(std::filesystem::path(DELIVERD_SOURCE_DIR) / "src/config/testing/dlq_manager.yaml");
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

TEST(DeadLettersConfig, TakesTheSeedsFileButForTheOpenDoor) {
    EXPECT_THAT(load(seed_file()).problems, ElementsAre(HasSubstr("server.host 0.0.0.0 can be reached from outside")));
    const LoadedConfig loaded = load(seed_file() + "auth: { mode: none }\n");
    EXPECT_THAT(loaded.problems, IsEmpty());
    const Config& config = loaded.config;
    EXPECT_EQ(config.app_name, "dlq-manager");
    EXPECT_EQ(config.environment, "production");
    EXPECT_EQ(config.server.host, "0.0.0.0");
    EXPECT_EQ(config.server.port, 8080);
    EXPECT_EQ(config.database.kind, DatabaseTarget::Kind::postgres);
    EXPECT_THAT(config.database.postgres.conninfo, HasSubstr("postgres.k1s0-system.svc.cluster.local"));
    EXPECT_EQ(config.database.postgres.max_connections, 25U);
    const KafkaConfig& kafka = config.dead_letters.kafka;
    EXPECT_TRUE(kafka.configured);
    EXPECT_EQ(kafka.brokers, "kafka-0.messaging.svc.cluster.local:9092");
    EXPECT_EQ(kafka.consumer_group, "dlq-manager.default");
    EXPECT_EQ(kafka.topic_pattern, "*.dlq.v1");
    EXPECT_THAT(kafka.librdkafka, IsEmpty());
}

TEST(DeadLettersConfig, WithoutKafkaItStandsAlone) {
    const DeadLettersConfig config = load("").config.dead_letters;
    EXPECT_FALSE(config.kafka.configured);
    EXPECT_EQ(config.kafka.brokers, "");
    EXPECT_EQ(config.kafka.consumer_group, "dlq-manager.default");
    EXPECT_TRUE(load("kafka: { security_protocol: SSL }").config.dead_letters.kafka.configured);
}

TEST(DeadLettersConfig, HowLongLettersAreKept) {
    const DeadLettersConfig usual = load("").config.dead_letters;
    EXPECT_EQ(usual.keep_resolved, std::chrono::hours(30 * 24));
    EXPECT_FALSE(usual.keep_dead);
    EXPECT_FALSE(usual.keep_pending);
    EXPECT_EQ(usual.keep_audit, std::chrono::hours(365 * 24));
    const DeadLettersConfig own =
        load("dead_letters: { keep_resolved: never, keep_dead: 90d, keep_pending: 12h, keep_audit: 2d }")
            .config.dead_letters;
    EXPECT_FALSE(own.keep_resolved);
    EXPECT_EQ(own.keep_dead, std::chrono::hours(90 * 24));
    EXPECT_EQ(own.keep_pending, std::chrono::hours(12));
    EXPECT_EQ(own.keep_audit, std::chrono::hours(48));
    EXPECT_THAT(load("dead_letters: { keep_dead: forever }").problems,
                ElementsAre(HasSubstr("or \"never\", not \"forever\"")));
}

TEST(DeadLettersConfig, ALeaseOutlastsARetry) {
    const DeadLettersConfig usual = load("").config.dead_letters;
    EXPECT_EQ(usual.replay_timeout, std::chrono::seconds(5));
    EXPECT_EQ(usual.retry_lease, std::chrono::seconds(30));
    EXPECT_THAT(load("dead_letters: { retry_lease_seconds: 15 }").problems,
                ElementsAre(HasSubstr("must be more than")));
}

TEST(DeadLettersConfig, WhatIsSpokenWithTheBrokersIsForSinksToo) {
    const LoadedConfig loaded = load(
        "kafka: { brokers: [a:1, b:2], security_protocol: SASL_SSL, sasl_mechanism: SCRAM-SHA-512, sasl_username: me,"
        " sasl_password: s3cret, librdkafka: { client.rack: r1 } }\n"
        "lanes: { events: { outbox: events, sink: { type: kafka } } }");
    EXPECT_THAT(loaded.problems, IsEmpty());
    const auto spoken =
        testing::ElementsAre(Pair("security.protocol", "SASL_SSL"), Pair("sasl.mechanism", "SCRAM-SHA-512"),
                             Pair("sasl.username", "me"), Pair("sasl.password", "s3cret"), Pair("client.rack", "r1"));
    EXPECT_THAT(loaded.config.dead_letters.kafka.librdkafka, spoken);
    EXPECT_THAT(loaded.config.lanes.at(0).sink.kafka.librdkafka, spoken);
    EXPECT_EQ(shown_value("kafka.sasl_password", *loaded.values.find("kafka.sasl_password")), "***");
}

TEST(DeadLettersConfig, ThePasswordsFileIsKnownToWhateverLogsInWithIt) {
    const auto path =
        std::filesystem::temp_directory_path() / ("deliverd_config_password_" + std::to_string(::getpid()));
    std::ofstream(path) << "s3cret\n";
    const std::string kafka =
        "kafka: { brokers: a:1, security_protocol: SASL_SSL, sasl_mechanism: PLAIN, sasl_username: me, "
        "sasl_password_file: " +
        path.string();
    const std::string lane = "\nlanes: { events: { outbox: events, sink: { type: kafka";
    const LoadedConfig usual = load(kafka + " }" + lane + " } } }");
    const LoadedConfig own_lane = load(kafka + " }" + lane + ", librdkafka: { sasl.password: x } } } }");
    const LoadedConfig own_for_all = load(kafka + ", librdkafka: { sasl.password: x } }" + lane + " } } }");
    std::filesystem::remove(path);
    EXPECT_THAT(usual.problems, IsEmpty());
    EXPECT_EQ(record_source_options(usual.config.dead_letters.kafka).password_file, path);
    EXPECT_EQ(replayer_options(usual.config.dead_letters).password_file, path);
    EXPECT_EQ(usual.config.lanes.at(0).sink.kafka.password_file, path);
    EXPECT_EQ(own_lane.config.dead_letters.kafka.password_file, path);
    EXPECT_EQ(own_lane.config.lanes.at(0).sink.kafka.password_file, "") << "its own one counts";
    EXPECT_EQ(own_for_all.config.dead_letters.kafka.password_file, "");
    EXPECT_EQ(own_for_all.config.lanes.at(0).sink.kafka.password_file, "");
}

TEST(DeadLettersConfig, SaysWhatCannotWork) {
    EXPECT_THAT(load("kafka: { sasl_username: me }").problems, ElementsAre(HasSubstr("make it SASL_SSL")));
    EXPECT_THAT(load("kafka: { dlq_topic_pattern: '' }").problems, ElementsAre(HasSubstr("must not be empty")));
    EXPECT_THAT(load("kafka: { brokers: a:1, librdkafka: { no.such.setting: x } }").problems,
                ElementsAre(HasSubstr("c.yaml:1: kafka: ")));
    EXPECT_THAT(load("kafka: { brokers: a:1, librdkafka: { enable.auto.commit: 'true' } }").problems,
                ElementsAre(HasSubstr("enable.auto.commit")));
    EXPECT_THAT(load("kafka: { consumer_gruop: x }").problems, ElementsAre(HasSubstr("did you mean")));
}

}  // namespace
}  // namespace deliverd::config
