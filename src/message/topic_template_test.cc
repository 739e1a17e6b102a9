#include "message/topic_template.h"

#include <gtest/gtest.h>

namespace deliverd {
namespace {

std::string topic(std::string_view text, const Message& message) {
    const auto parsed = TopicTemplate::parse(text);
    return parsed ? parsed->topic_of(message) : "refused: " + parsed.error().message;
}

Message paid() {
    Message message;
    message.type = "OrderPaid";
    message.key = "order-7";
    message.aggregate_type = "Order";
    return message;
}

TEST(DottedEventType, SplitsWhereAWordBegins) {
    EXPECT_EQ(dotted_event_type("OrderCreated"), "order.created");
    EXPECT_EQ(dotted_event_type("orderCreated"), "order.created");
    EXPECT_EQ(dotted_event_type("Order"), "order");
    EXPECT_EQ(dotted_event_type("HTTPRequestSent"), "http.request.sent");
    EXPECT_EQ(dotted_event_type("Level2Reached"), "level2.reached");
    EXPECT_EQ(dotted_event_type("order_paid"), "order.paid");
    EXPECT_EQ(dotted_event_type("order.paid"), "order.paid");
    EXPECT_EQ(dotted_event_type("order-paid"), "order-paid");
    EXPECT_EQ(dotted_event_type("ABC"), "abc");
    EXPECT_EQ(dotted_event_type(""), "");
    EXPECT_EQ(dotted_event_type("注文Created"), "注文created");
}

TEST(TopicTemplate, FillsInWhatTheEventSays) {
    EXPECT_EQ(topic("{event_type}", paid()), "order.paid");
    EXPECT_EQ(topic("{event_type_raw}", paid()), "OrderPaid");
    EXPECT_EQ(topic("outbox.event.{aggregate_type}", paid()), "outbox.event.Order");
    EXPECT_EQ(topic("shop.{aggregate_id}.{event_type}.v1", paid()), "shop.order-7.order.paid.v1");
    EXPECT_EQ(topic("events", paid()), "events");
}

TEST(TopicTemplate, KnowsWhetherItIsAlwaysTheSame) {
    EXPECT_TRUE(TopicTemplate::parse("events")->fixed());
    EXPECT_FALSE(TopicTemplate::parse("a.{event_type}")->fixed());
}

TEST(TopicTemplate, RefusesWhatItCannotFillIn) {
    EXPECT_FALSE(TopicTemplate::parse(""));
    EXPECT_FALSE(TopicTemplate::parse("{event_type"));
    EXPECT_FALSE(TopicTemplate::parse("event_type}"));
    const auto unknown = TopicTemplate::parse("{type}");
    ASSERT_FALSE(unknown);
    EXPECT_NE(unknown.error().message.find("{type}"), std::string::npos);
    EXPECT_NE(unknown.error().message.find("{event_type}"), std::string::npos);
}

}  // namespace
}  // namespace deliverd
