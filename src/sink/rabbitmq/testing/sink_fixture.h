// For tests: a sink, and an exchange with a queue behind it on the tests' server.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sink/rabbitmq/rabbitmq_sink.h"
#include "sink/rabbitmq/testing/rabbit.h"
#include "sink/testing/collector.h"

namespace deliverd::sink {

inline Message event(std::int64_t id, std::string topic, std::string body = R"({"total": 7})") {
    Message message = test_message(id, std::move(body));
    message.message_id = "event-" + std::to_string(id);
    message.key = "order-7";
    message.type = "OrderCreated";
    message.topic = std::move(topic);
    message.created_at = "2026-02-20T10:30:00.999Z";
    return message;
}

/// Sends it until it is delivered, or a test's patience is over: the last outcome.
inline Outcome send_until_delivered(Sink& sink, const Message& message) {
    const auto end = std::chrono::steady_clock::now() + kTestPatience;
    while (true) {
        auto outcome = send_one(sink, message);
        if (outcome.kind == OutcomeKind::delivered || std::chrono::steady_clock::now() >= end) return outcome;
    }
}

class RabbitmqSinkTest : public testing::Test {
protected:
    RabbitmqSinkTest() : client_(rabbit_url()), queue_(fresh_name("queue")), exchange_(fresh_name("exchange")) {
        client_.declare_exchange(exchange_);
        client_.declare_queue(queue_);
        client_.bind(queue_, exchange_, "order.#");
        options_.url = rabbit_url();
        options_.exchange = exchange_;
    }
    ~RabbitmqSinkTest() override {
        client_.delete_queue(queue_);
        client_.delete_exchange(exchange_);
    }
    std::unique_ptr<Sink> sink() {
        auto made = make_rabbitmq_sink(options_, log_);
        EXPECT_TRUE(made) << made.error().message;
        return std::move(*made);
    }
    std::string check_message() {
        const auto checked = sink()->check(kTestPatience);
        return checked ? "" : checked.error().message;
    }

    NullLog log_;
    RabbitClient client_;
    std::string queue_;
    std::string exchange_;
    RabbitmqSinkOptions options_;
};

}  // namespace deliverd::sink
