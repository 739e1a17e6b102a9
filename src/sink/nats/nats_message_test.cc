#include "sink/nats/nats_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sink/testing/collector.h"

namespace deliverd::sink {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Key;
using testing::Not;
using testing::Pair;

TEST(NatsSubject, TakesWhatAServerTakes) {
    for (const auto* good : {"a", "order.created", "a.b-c_d.1", "o/r=x", "straße.größe", "a.$b", "a.b*c"}) {
        // A star within a part is no wildcard to the server, but to too many clients.
        EXPECT_EQ(check_subject(good).has_value(), std::string_view(good) != "a.b*c") << good;
    }
    for (const std::string bad :
         {"", ".a", "a.", "a..b", "a b", "a.*", "a.>", ">", "a\tb", "a\r\nPUB x 0", "$JS.API.X", "\xff", "a\x7f"}) {
        const auto refused = check_subject(bad);
        ASSERT_FALSE(refused) << bad;
        EXPECT_EQ(refused.error().code, "BAD_TOPIC");
        EXPECT_EQ(refused.error().error_class, ErrorClass::permanent);
    }
    EXPECT_FALSE(check_subject(std::string("a\0b", 3)));
    EXPECT_FALSE(check_subject(std::string(4000, 'a')));
}

TEST(NatsHeaders, CarryWhatTheEventIs) {
    auto message = test_event(1, "order.created");
    message.headers = {{"traceparent", "00-ab-cd-01"}, {"correlation_id", "a b: c, d"}};
    EXPECT_THAT(nats_headers(message, {}),
                ElementsAre(Pair("aggregate_id", "order-1"), Pair("event_type", "OrderCreated"),
                            Pair("created_at", "2026-02-20T10:30:00.123Z"), Pair("traceparent", "00-ab-cd-01"),
                            Pair("correlation_id", "a b: c, d")));
}

TEST(NatsHeaders, EncodeValuesThatAHeaderCannotHold) {
    auto message = test_event(1, "order.created");
    message.key = "größe";
    message.headers = {
        {"a b:c\r\nd", "x"}, {"lines", "a\r\nNats-Rollup: all"}, {"edge", " a"}, {"empty", ""}, {"literal", "%41"}};
    const auto headers = nats_headers(message, {});
    EXPECT_THAT(headers, Contains(Pair("aggregate_id", "gr%C3%B6%C3%9Fe")));
    EXPECT_THAT(headers, Contains(Pair("a-b-c--d", "x")));
    EXPECT_THAT(headers, Contains(Pair("lines", "a%0D%0ANats-Rollup:%20all")));
    EXPECT_THAT(headers, Contains(Pair("edge", "%20a")));
    EXPECT_THAT(headers, Contains(Pair("empty", "")));
    EXPECT_THAT(headers, Contains(Pair("literal", "%2541")));
}

TEST(NatsHeaders, AreNeverCommandsToTheServer) {
    auto message = test_event(1, "order.created");
    message.headers = {{"Nats-Rollup", "all"},
                       {"nats-expected-stream", "x"},
                       {"Content-Type", "text/html"},
                       {"", "x"},
                       // As they are sent: what may not stand in a name becomes a dash.
                       {"Nats Rollup", "all"},
                       {"Nats:Msg-Id", "another's"},
                       {"Nats\nTTL", "1s"},
                       {"Nats\xc3\xa4Msg-Id", "another's"},
                       {"content type", "text/html"}};
    const auto headers = nats_headers(message, {});
    EXPECT_EQ(headers.size(), 3U);
    EXPECT_THAT(headers, Not(Contains(Key(testing::HasSubstr("-")))));
}

TEST(NatsHeaders, InCloudEventsHaveThePrefixAndAreEncoded) {
    auto message = test_event(1, "order.created");
    message.key = "Euro € 😀";
    message.headers = {{"Correlation-Id", "c 1"}};
    const EventAttributesOptions options{EventFormat::cloudevents, "/shop"};
    EXPECT_THAT(
        nats_headers(message, options),
        ElementsAre(Pair("ce-datacontenttype", "application/json"), Pair("ce-specversion", "1.0"),
                    Pair("ce-id", message.message_id), Pair("ce-source", "/shop"), Pair("ce-type", "OrderCreated"),
                    Pair("ce-time", message.created_at), Pair("ce-subject", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
                    Pair("ce-partitionkey", "Euro%20%E2%82%AC%20%F0%9F%98%80"), Pair("ce-correlationid", "c%201")));
}

}  // namespace
}  // namespace deliverd::sink
