// With a real server. rabbitmq_restart_test.cc has servers that die, rabbitmq_fault_test.cc those that lie.
#include "sink/rabbitmq/rabbitmq_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "sink/rabbitmq/testing/sink_fixture.h"

namespace deliverd::sink {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr std::size_t kMany = 20'000;
constexpr std::size_t kServerLimit = 512UL * 1024;  // max_message_size of the tests' server

/// 0, 1, 2, … as body.
std::vector<Message> numbered(std::size_t count) {
    std::vector<Message> out;
    out.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        out.push_back(event(static_cast<std::int64_t>(i), "order.created", std::to_string(i)));
    }
    return out;
}

TEST_F(RabbitmqSinkTest, AMessageArrivesWithItsBytesAndProperties) {
    auto message = event(1, "order.created", std::string("{\"a\": \"\u00e9\0\"}", 13));
    message.headers = {{"traceparent", "00-ab-cd-01"}, {"tenant", "Stra\u00dfe"}};
    const auto outcome = send_one(*sink(), message);
    EXPECT_EQ(outcome.kind, OutcomeKind::delivered) << outcome.code << ": " << outcome.detail;
    const auto got = client_.take_all(queue_);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].body, message.body);
    EXPECT_EQ(got[0].exchange, exchange_);
    EXPECT_EQ(got[0].routing_key, "order.created");
    EXPECT_EQ(got[0].message_id, "event-1");
    EXPECT_EQ(got[0].type, "OrderCreated");
    EXPECT_EQ(got[0].content_type, "application/json");
    EXPECT_EQ(got[0].delivery_mode, 2);
    EXPECT_EQ(got[0].timestamp, 1771583400U);  // 2026-02-20T10:30:00Z
    EXPECT_TRUE(got[0].headers_are_text);
    EXPECT_THAT(got[0].headers,
                ElementsAre(Pair("aggregate_id", "order-7"), Pair("created_at", "2026-02-20T10:30:00.999Z"),
                            Pair("event_type", "OrderCreated"), Pair("tenant", "Stra\u00dfe"),
                            Pair("traceparent", "00-ab-cd-01")));
}

TEST_F(RabbitmqSinkTest, ACloudEventHasItsAttributesAsHeaders) {
    options_.attributes = {EventFormat::cloudevents, "/shop"};
    auto message = event(1, "order.created");
    message.headers = {{"tenant", "a"}};
    EXPECT_EQ(send_one(*sink(), message).kind, OutcomeKind::delivered);
    const auto got = client_.take_all(queue_);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].content_type, "application/json");
    EXPECT_THAT(
        got[0].headers,
        ElementsAre(Pair("cloudEvents:id", "event-1"), Pair("cloudEvents:partitionkey", "order-7"),
                    Pair("cloudEvents:source", "/shop"), Pair("cloudEvents:specversion", "1.0"),
                    Pair("cloudEvents:subject", "order-7"), Pair("cloudEvents:tenant", "a"),
                    Pair("cloudEvents:time", "2026-02-20T10:30:00.999Z"), Pair("cloudEvents:type", "OrderCreated")));
}

TEST_F(RabbitmqSinkTest, WithoutAnExchangeTheRoutingKeyIsTheQueue) {
    options_.exchange.clear();
    auto message = event(1, queue_, "");
    message.created_at.clear();
    EXPECT_EQ(send_one(*sink(), message).kind, OutcomeKind::delivered);
    const auto got = client_.take_all(queue_);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].body, "");
    EXPECT_EQ(got[0].flags & AMQP_BASIC_TIMESTAMP_FLAG, 0U);
}

TEST_F(RabbitmqSinkTest, AnUnroutableMessageIsRetryableThoughTheServerConfirmsIt) {
    const auto rabbit = sink();
    Collector collector;
    std::vector<Message> messages;
    for (int i = 0; i < 300; ++i) messages.push_back(event(i, i % 3 == 0 ? "invoice.paid" : "order.paid"));
    const auto pointers = pointers_to(messages);
    rabbit->send(pointers, collector);
    ASSERT_TRUE(collector.wait_for(messages.size()));
    for (int i = 0; i < 300; ++i) {
        const auto outcome = collector.of(i).front();
        if (i % 3 != 0) {
            EXPECT_EQ(outcome.kind, OutcomeKind::delivered) << i;
            continue;
        }
        EXPECT_EQ(outcome.kind, OutcomeKind::retryable) << i;
        EXPECT_EQ(outcome.code, "UNROUTABLE");
        EXPECT_FALSE(outcome.not_attempted);
        EXPECT_THAT(outcome.detail, AllOf(HasSubstr(exchange_), HasSubstr("invoice.paid")));
    }
    EXPECT_EQ(client_.take_all(queue_).size(), 200U);
}

TEST_F(RabbitmqSinkTest, AQueueThatIsFullRefusesAndThatIsRetryable) {
    const auto full = fresh_name("full");
    client_.declare_queue(full, 1);
    options_.exchange.clear();
    const auto rabbit = sink();
    EXPECT_EQ(send_one(*rabbit, event(1, full)).kind, OutcomeKind::delivered);
    const auto outcome = send_one(*rabbit, event(2, full));
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
    EXPECT_EQ(outcome.code, "NACKED");
    client_.delete_queue(full);
}

TEST_F(RabbitmqSinkTest, ANackOfAnExchangeIsAmbiguousBecauseAnotherQueueMayHaveIt) {
    const auto full = fresh_name("full");
    client_.declare_queue(full, 1);
    client_.bind(full, exchange_, "order.#");
    const auto rabbit = sink();
    EXPECT_EQ(send_one(*rabbit, event(1, "order.created")).kind, OutcomeKind::delivered);
    const auto outcome = send_one(*rabbit, event(2, "order.created"));
    EXPECT_EQ(outcome.kind, OutcomeKind::ambiguous);
    EXPECT_EQ(outcome.code, "NACKED");
    EXPECT_EQ(client_.take_all(queue_).size(), 2U);  // the other queue has both
    client_.delete_queue(full);
}

TEST_F(RabbitmqSinkTest, AMissingExchangeIsReportedAndDeliveryStartsOnceItExists) {
    options_.exchange = fresh_name("missing");
    EXPECT_THAT(check_message(), AllOf(HasSubstr(options_.exchange), HasSubstr("create it")));
    const auto rabbit = sink();
    auto outcome = send_one(*rabbit, event(1, "order.created"));
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
    EXPECT_EQ(outcome.code, "NO_EXCHANGE");
    EXPECT_TRUE(outcome.not_attempted);
    EXPECT_THAT(outcome.detail, HasSubstr(options_.exchange));
    client_.declare_exchange(options_.exchange);
    client_.bind(queue_, options_.exchange, "#");
    outcome = send_until_delivered(*rabbit, event(1, "order.created"));
    EXPECT_EQ(outcome.kind, OutcomeKind::delivered) << outcome.code;
    EXPECT_EQ(client_.take_all(queue_).size(), 1U);
    client_.delete_exchange(options_.exchange);
}

TEST_F(RabbitmqSinkTest, AnExchangeThatVanishesIsReportedByTheNextMessage) {
    const auto gone = fresh_name("gone");
    client_.declare_exchange(gone);
    client_.bind(queue_, gone, "#");
    options_.exchange = gone;
    const auto rabbit = sink();
    ASSERT_EQ(send_one(*rabbit, event(1, "order.created")).kind, OutcomeKind::delivered);
    client_.delete_exchange(gone);
    const auto outcome = send_one(*rabbit, event(2, "order.created"));
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
    EXPECT_EQ(outcome.code, "NO_EXCHANGE");
    EXPECT_FALSE(outcome.not_attempted);
    EXPECT_THAT(outcome.detail, HasSubstr(gone));
}

TEST_F(RabbitmqSinkTest, AMuchTooLargeMessageIsPermanentAndTheOthersArrive) {
    const auto rabbit = sink();
    std::vector<Message> messages;
    for (int i = 0; i < 40; ++i) messages.push_back(event(i, "order.created"));
    messages[20].body.assign(2 * kServerLimit, 'x');  // large enough to be sent alone
    const auto pointers = pointers_to(messages);
    Collector collector;
    rabbit->send(pointers, collector);
    ASSERT_TRUE(collector.wait_for(messages.size()));
    for (int i = 0; i < 40; ++i) {
        const auto outcome = collector.of(i).front();
        EXPECT_EQ(outcome.kind, i == 20 ? OutcomeKind::permanent : OutcomeKind::delivered) << i << outcome.detail;
    }
    const auto refused = collector.of(20).front();
    EXPECT_EQ(refused.code, "PRECONDITION_FAILED");
    EXPECT_THAT(refused.detail, HasSubstr("larger than configured max size 524288"));
    EXPECT_EQ(client_.take_all(queue_).size(), 39U);
}

TEST_F(RabbitmqSinkTest, ATooLargeMessageAmongOthersIsPermanentAndNoneOfThemIsLost) {
    const auto rabbit = sink();
    auto messages = numbered(40);
    messages[20].body.assign(kServerLimit + 1, 'x');
    ASSERT_EQ(send_one(*rabbit, messages[0]).kind, OutcomeKind::delivered);
    Collector collector;
    rabbit->send(pointers_to(messages), collector);
    ASSERT_TRUE(collector.wait_for(messages.size()));
    EXPECT_EQ(collector.of(20).front().kind, OutcomeKind::permanent) << collector.of(20).front().detail;
    std::multiset<std::string> arrived;
    for (const auto& got : client_.take_all(queue_)) arrived.insert(got.body);
    for (int i = 0; i < 40; ++i) {
        const auto outcome = collector.of(i).front();
        const auto copies = arrived.count(messages[static_cast<std::size_t>(i)].body) - (i == 0 ? 1 : 0);
        if (outcome.kind == OutcomeKind::delivered) {
            EXPECT_EQ(copies, 1U) << i;
        }
        if (outcome.kind == OutcomeKind::retryable) {
            EXPECT_EQ(copies, 0U) << i;
        }
        if (i != 20) {
            EXPECT_NE(outcome.kind, OutcomeKind::permanent) << i;
        }
    }
}

TEST_F(RabbitmqSinkTest, ALargeMessageArrivesWhole) {
    std::string body(kServerLimit, '\0');
    for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 31 + i / 251);
    const auto rabbit = sink();
    EXPECT_EQ(send_one(*rabbit, event(1, "order.created", body)).kind, OutcomeKind::delivered);
    EXPECT_EQ(send_one(*rabbit, event(2, "order.created", body.substr(0, 65'500))).kind, OutcomeKind::delivered);
    const auto got = client_.take_all(queue_);
    ASSERT_EQ(got.size(), 2U);
    EXPECT_TRUE(got[0].body == body);
    EXPECT_TRUE(got[1].body == body.substr(0, 65'500));
}

TEST_F(RabbitmqSinkTest, WhatAmqpCannotExpressIsPermanentAndNotSent) {
    const auto rabbit = sink();
    auto outcome = send_one(*rabbit, event(1, std::string(256, 'k')));
    EXPECT_EQ(outcome.kind, OutcomeKind::permanent);
    EXPECT_EQ(outcome.code, "BAD_TOPIC");
    auto message = event(2, "order.created");
    message.headers = {{std::string(256, 'n'), "v"}};
    EXPECT_EQ(send_one(*rabbit, message).code, "BAD_HEADER");
    message.headers = {{"n", std::string(100'000, 'v')}};
    EXPECT_EQ(send_one(*rabbit, message).code, "BAD_HEADER");
    message.headers.clear();
    message.type.assign(256, 't');
    EXPECT_EQ(send_one(*rabbit, message).code, "BAD_HEADER");
    message.type.assign(255, 't');
    message.topic = "order." + std::string(249, 'k');
    message.headers = {{std::string(255, 'n'), std::string(50'000, 'v')}};
    outcome = send_one(*rabbit, message);
    EXPECT_EQ(outcome.kind, OutcomeKind::delivered) << outcome.detail;
    EXPECT_EQ(client_.take_all(queue_).size(), 1U);
}

TEST_F(RabbitmqSinkTest, TwentyThousandArriveInOrderWithOneOutcomeEach) {
    options_.timeout = 10 * kTestPatience;
    const auto rabbit = sink();
    const auto messages = numbered(kMany);
    const auto pointers = pointers_to(messages);
    Collector collector;
    rabbit->send(pointers, collector);
    for (int waits = 0; waits < 10 && !collector.wait_for(kMany);) ++waits;
    rabbit->stop(Duration::zero());
    ASSERT_EQ(collector.count(), kMany);
    const auto got = client_.take_all(queue_);
    ASSERT_EQ(got.size(), kMany);
    for (std::size_t i = 0; i < kMany; ++i) {
        ASSERT_EQ(got[i].body, std::to_string(i));
        const auto outcomes = collector.of(static_cast<std::int64_t>(i));
        ASSERT_EQ(outcomes.size(), 1U);
        ASSERT_EQ(outcomes[0].kind, OutcomeKind::delivered) << outcomes[0].code;
    }
}

TEST_F(RabbitmqSinkTest, StoppedInTheMiddleEachHasOneOutcomeAndTheDeliveredAreThere) {
    auto rabbit = sink();
    const auto messages = numbered(kMany);
    const auto pointers = pointers_to(messages);
    Collector collector;
    rabbit->send(pointers, collector);
    ASSERT_TRUE(collector.wait_for(100));
    rabbit->stop(Duration::zero());
    EXPECT_EQ(collector.count(), kMany);
    Collector late;
    rabbit->send({pointers.data(), 1}, late);
    EXPECT_EQ(late.of(0).at(0).code, kStopped);
    rabbit.reset();
    std::set<std::string> arrived;
    for (const auto& got : client_.take_all(queue_)) arrived.insert(got.body);
    for (std::size_t i = 0; i < kMany; ++i) {
        const auto outcomes = collector.of(static_cast<std::int64_t>(i));
        ASSERT_EQ(outcomes.size(), 1U);
        const bool is_there = arrived.contains(std::to_string(i));
        if (outcomes[0].kind == OutcomeKind::delivered) {
            ASSERT_TRUE(is_there) << i;
        }
        if (outcomes[0].kind == OutcomeKind::retryable) {
            ASSERT_FALSE(is_there) << i;
        }
    }
}

TEST_F(RabbitmqSinkTest, APatientStopLetsEveryMessageArrive) {
    const auto rabbit = sink();
    const auto messages = numbered(500);
    const auto pointers = pointers_to(messages);
    Collector collector;
    rabbit->send(pointers, collector);
    rabbit->stop(kTestPatience);
    ASSERT_EQ(collector.count(), 500U);
    for (int i = 0; i < 500; ++i) EXPECT_EQ(collector.of(i).front().kind, OutcomeKind::delivered);
    EXPECT_EQ(client_.take_all(queue_).size(), 500U);
}

TEST_F(RabbitmqSinkTest, IdleForLongerThanTwoHeartbeatsTheConnectionStays) {
    class Lines final : public Log {
    public:
        void write(LogLevel, std::string_view, Fields) override { ++count; }
        std::atomic<int> count = 0;
    } lines;
    constexpr int kHeartbeat = 2;  // seconds; of one, a pause of this process ends the connection too
    options_.heartbeat = std::chrono::seconds(kHeartbeat);
    auto made = make_rabbitmq_sink(options_, lines);
    ASSERT_TRUE(made);
    ASSERT_EQ(send_one(**made, event(1, "order.created")).kind, OutcomeKind::delivered);
    // The server gives up a connection on which no heartbeat comes; ours, idle for as long, it keeps.
    RabbitClient mute(options_.url, kHeartbeat);
    ASSERT_TRUE(mute.wait_until_closed(kTestPatience));
    EXPECT_EQ(send_one(**made, event(2, "order.created")).kind, OutcomeKind::delivered);
    EXPECT_EQ(lines.count, 0);  // nothing was lost and made again
}

}  // namespace
}  // namespace deliverd::sink
