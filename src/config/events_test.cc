#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"

namespace deliverd::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

LoadedConfig load_lane(const std::string& lane, const std::string& rest = "") {
    const std::string yaml = rest + "\nlanes:\n  events: { outbox: events, " + lane + " }\n";
    return load_config_text(yaml, "d.yaml", {}, [](const std::string&) { return std::nullopt; });
}

TEST(EventsConfig, HasTheDefaultsOfTheSpecification) {
    const LoadedConfig loaded = load_lane("sink: { type: console }");
    ASSERT_THAT(loaded.problems, IsEmpty());
    const LaneConfig& lane = loaded.config.lanes.at(0);
    EXPECT_EQ(lane.outbox, OutboxKind::events);
    const EventsConfig& events = lane.events;
    EXPECT_EQ(events.table.lane, "events");
    EXPECT_EQ(events.table.table, "outbox");
    EXPECT_EQ(events.table.after_publish, store::AfterPublish::mark);
    EXPECT_FALSE(events.table.block_behind_dead);
    EXPECT_FALSE(events.relay.strict_order);
    EXPECT_EQ(events.keep_published, std::chrono::hours(7 * 24));
    EXPECT_EQ(events.relay.busy_poll, std::chrono::milliseconds(2));
    EXPECT_EQ(events.relay.idle_poll, std::chrono::seconds(1));
    EXPECT_EQ(events.relay.retry.dead_at_failures, 10);
    EXPECT_EQ(events.relay.retry.base_seconds, 1);
    EXPECT_EQ(events.relay.retry.factor, 2);
    EXPECT_EQ(events.relay.retry.cap_seconds, 300);
    EXPECT_EQ(events.relay.retry.jitter, 0.2);
    Message message;
    message.type = "OrderCreated";
    EXPECT_EQ(events.relay.topic.topic_of(message), "order.created");
}

TEST(EventsConfig, TakesWhatTheFileSays) {
    const LoadedConfig loaded = load_lane(
        "sink: { type: console, topic: \"shop.{event_type_raw}\" }, on_dead: block, strict_order: true, "
        "after_publish: delete, shards: 8, lease_seconds: 3, retry: { max: 3 }, keep_published: 1h");
    ASSERT_THAT(loaded.problems, IsEmpty());
    const EventsConfig& events = loaded.config.lanes.at(0).events;
    EXPECT_TRUE(events.table.block_behind_dead);
    EXPECT_TRUE(events.relay.block_behind_dead);
    EXPECT_TRUE(events.relay.strict_order);
    EXPECT_EQ(events.table.after_publish, store::AfterPublish::remove);
    EXPECT_EQ(events.table.shards, 8);
    EXPECT_EQ(events.relay.lease, std::chrono::seconds(3));
    EXPECT_EQ(events.relay.retry.dead_at_failures, 3);
    EXPECT_EQ(events.keep_published, std::chrono::hours(1));
}

TEST(EventsConfig, KafkaTakesItsBrokersFromTheLaneOrFromTheSection) {
    const LoadedConfig own = load_lane(
        "sink: { type: kafka, brokers: [a:1, b:2], librdkafka: { sasl.mechanism: PLAIN, sasl.password: x, "
        "sasl.username: ann } }",
        "kafka: { brokers: c:3, security_protocol: SASL_SSL, sasl_mechanism: SCRAM-SHA-256, sasl_username: bob, "
        "sasl_password: y }");
    ASSERT_THAT(own.problems, IsEmpty());
    EXPECT_EQ(own.config.lanes.at(0).sink.kafka.brokers, "a:1,b:2");
    EXPECT_THAT(own.config.lanes.at(0).sink.kafka.librdkafka,
                ElementsAre(Pair("security.protocol", "SASL_SSL"), Pair("sasl.mechanism", "SCRAM-SHA-256"),
                            Pair("sasl.username", "bob"), Pair("sasl.password", "y"), Pair("sasl.mechanism", "PLAIN"),
                            Pair("sasl.password", "x"), Pair("sasl.username", "ann")))
        << "the lane's own last, because the last one counts";
    EXPECT_EQ(load_lane("sink: { type: kafka }", "kafka: { brokers: c:3 }").config.lanes.at(0).sink.kafka.brokers,
              "c:3");
    EXPECT_THAT(load_lane("sink: { type: kafka }").problems, ElementsAre(HasSubstr("needs brokers")));
}

TEST(EventsConfig, TimeoutsFollowTheSink) {
    EXPECT_EQ(load_lane("sink: { type: kafka, brokers: a:1 }").config.lanes.at(0).sink.kafka.timeout,
              std::chrono::seconds(10));
    EXPECT_EQ(load_lane("sink: { type: nats, url: \"nats://h:1\" }").config.lanes.at(0).sink.nats.timeout,
              std::chrono::seconds(5));
}

TEST(EventsConfig, MapsAnExistingTable) {
    const LoadedConfig preset = load_lane("sink: { type: console }, table: shop.outboxevent, columns: debezium");
    ASSERT_THAT(preset.problems, IsEmpty());
    const store::EventTable& debezium = preset.config.lanes.at(0).events.table;
    EXPECT_EQ(debezium.table, "shop.outboxevent");
    EXPECT_EQ(debezium.columns.aggregate_type, "aggregatetype");
    EXPECT_EQ(debezium.after_publish, store::AfterPublish::remove);  // it has no column to mark

    const LoadedConfig own = load_lane("sink: { type: console }, columns: { payload: body, event_type: kind }");
    ASSERT_THAT(own.problems, IsEmpty());
    EXPECT_EQ(own.config.lanes.at(0).events.table.columns.payload, "body");
    EXPECT_EQ(own.config.lanes.at(0).events.table.columns.aggregate_id, "aggregate_id");
}

TEST(EventsConfig, RefusesAMappingThatCannotBe) {
    EXPECT_THAT(load_lane("sink: { type: console }, columns: { paylod: body }").problems,
                ElementsAre(HasSubstr("no column is called \"paylod\"")));
    EXPECT_THAT(load_lane("sink: { type: console }, columns: { retry_count: \"\" }").problems,
                ElementsAre(HasSubstr("belong together")));
    EXPECT_THAT(load_lane("sink: { type: console }, columns: debezium, after_publish: mark").problems,
                ElementsAre(HasSubstr("after_publish: delete")));
}

TEST(EventsConfig, RefusesWhatBelongsToAnotherLaneOrSink) {
    EXPECT_THAT(load_lane("sink: { type: console }, stuck_threshold_min: 3").problems,
                ElementsAre(HasSubstr("use lease_seconds instead")));
    EXPECT_THAT(load_lane("sink: { type: console, exchange: shop }").problems,
                ElementsAre(HasSubstr("is for lanes with sink rabbitmq, and this one has console")));
    EXPECT_THAT(load_lane("sink: { type: console, topic: \"{evnt}\" }").problems,
                ElementsAre(HasSubstr("unknown placeholder {evnt}")));
    EXPECT_THAT(load_lane("relay: wal, sink: { type: console }").problems,
                ElementsAre(HasSubstr("not in this version")));
    const LoadedConfig memory =
        load_config_text("lanes: { m: { outbox: memory, sink: { type: nats, url: \"nats://h\" } } }", "d.yaml", {},
                         [](const std::string&) { return std::nullopt; });
    EXPECT_THAT(memory.problems, ElementsAre(HasSubstr("nats is for lanes with outbox events")));
}

TEST(EventsConfig, TwoLanesMayNotRelayOneTable) {
    const std::string yaml =
        "lanes:\n  a: { outbox: events, sink: { type: console } }\n  b: { outbox: events, sink: { type: console } }\n"
        "  c: { outbox: events, table: other, sink: { type: console } }\n"
        "  d: { outbox: events, table: Main.Other, sink: { type: console } }\n";
    const LoadedConfig loaded = load_config_text(yaml, "d.yaml", {}, [](const std::string&) { return std::nullopt; });
    EXPECT_THAT(loaded.problems,
                ElementsAre(HasSubstr("d.yaml:3: lanes.b.outbox"), HasSubstr("d.yaml:5: lanes.d.outbox")));
}

TEST(EventsConfig, RefusesHeadersThatSayWhatAnEventIs) {
    for (const std::string name : {"Webhook-Id", "ce-type", "X-Event-Type"}) {
        EXPECT_THAT(load_lane("sink: { type: http, url: \"http://h/\", headers: { " + name + ": x } }").problems,
                    ElementsAre(HasSubstr("deliverd sets " + name + " itself")));
    }
}

TEST(EventsConfig, SignsAndBreaksAsToldWhenItPosts) {
    const LoadedConfig loaded = load_lane(
        "sink: { type: http, url: \"http://h/\", format: cloudevents, secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw "
        "}");
    ASSERT_THAT(loaded.problems, IsEmpty());
    const sink::HttpSinkOptions& http = loaded.config.lanes.at(0).sink.http;
    ASSERT_TRUE(http.events.has_value());
    EXPECT_EQ(http.events->format, EventFormat::cloudevents);
    EXPECT_EQ(http.events->source, "/deliverd/events");
    EXPECT_EQ(http.secret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    EXPECT_GT(http.breaker_failures, 0);
    EXPECT_EQ(loaded.config.lanes.at(0).events.relay.parallelism, 64);  // its connections
    EXPECT_EQ(shown_value("lanes.events.sink.secret", *loaded.values.find("lanes.events.sink.secret")), "***");
}

}  // namespace
}  // namespace deliverd::config
