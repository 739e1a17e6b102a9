// For tests: what sink.h promises, run on every sink with a real server. A sink's room implements ContractReceiver and
// instantiates SinkContract in one *_contract_test.cc.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "sink/testing/stop_contract.h"

namespace deliverd::sink {

inline constexpr auto kContractPatience = std::chrono::seconds(60);  // a test that waits this long has failed

/// The receiver's side of a sink. Bodies tell its messages apart.
class ContractReceiver {
public:
    virtual ~ContractReceiver() = default;

    /// A new sink to a server that takes messages.
    virtual std::unique_ptr<Sink> sink() = 0;
    virtual Message message(std::int64_t id, std::string body) = 0;
    /// The bodies that arrived so far, each as often as it did. Called after the sink was stopped.
    virtual std::multiset<std::string> arrived() = 0;
    /// A message larger than the sink or its server takes; none where there is no limit.
    virtual std::optional<Message> oversized(std::int64_t id) = 0;

    /// A sink whose server answers nothing any more, and messages of which it cannot start all; null where send()
    /// returns with nothing under way.
    virtual std::unique_ptr<Sink> unanswered_sink() { return nullptr; }
    virtual std::vector<Message> unanswered_messages() { return {}; }
    virtual std::size_t most_under_way() { return 0; }
    /// Returns when the sink has started what it can.
    virtual void wait_until_started() {}
};

using MakeContractReceiver = std::unique_ptr<ContractReceiver> (*)();

class SinkContract : public testing::TestWithParam<MakeContractReceiver> {
protected:
    std::vector<Message> messages(std::int64_t count) {
        std::vector<Message> out;
        for (std::int64_t id = 0; id < count; ++id) out.push_back(receiver_->message(id, body_of(id)));
        return out;
    }
    static std::string body_of(std::int64_t id) { return "{\"n\":" + std::to_string(id) + "}"; }

    /// Each of them has one outcome, and what it says is true of what arrived.
    void expect_true_outcomes(const std::vector<Message>& sent) {
        const auto arrived = receiver_->arrived();
        EXPECT_EQ(collector_.count(), sent.size());
        for (const Message& message : sent) {
            const auto outcomes = collector_.of(message.id);
            ASSERT_EQ(outcomes.size(), 1U) << message.id;
            const bool is_there = arrived.contains(message.body);
            const auto kind = outcomes.front().kind;
            EXPECT_LE(arrived.count(message.body), 1U) << message.id;
            EXPECT_TRUE(is_there || kind != OutcomeKind::delivered) << message.id;
            EXPECT_TRUE(!is_there || kind == OutcomeKind::delivered || kind == OutcomeKind::ambiguous) << message.id;
        }
    }
    std::size_t delivered(const std::vector<Message>& sent) {
        return static_cast<std::size_t>(std::ranges::count_if(sent, [this](const Message& message) {
            const auto outcomes = collector_.of(message.id);
            return !outcomes.empty() && outcomes.front().kind == OutcomeKind::delivered;
        }));
    }

    const std::unique_ptr<ContractReceiver> receiver_ = GetParam()();
    Collector collector_;
};

TEST_P(SinkContract, EachMessageArrivesOnceAndHasOneOutcome) {
    const auto sink = receiver_->sink();
    const auto sent = messages(300);
    const auto pointers = pointers_to(sent);
    std::size_t from = 0;
    for (const std::size_t size : {1U, 7U, 0U, 42U, 250U}) {
        sink->send(std::span(pointers).subspan(from, size), collector_);
        from += size;
    }
    ASSERT_EQ(from, sent.size());
    ASSERT_TRUE(collector_.wait_for(sent.size(), kContractPatience));
    sink->stop(Duration::zero());
    EXPECT_EQ(delivered(sent), sent.size());
    expect_true_outcomes(sent);
}

TEST_P(SinkContract, AnEmptyBatchHasNoOutcome) {
    const auto sink = receiver_->sink();
    sink->send({}, collector_);
    EXPECT_EQ(send_one(*sink, receiver_->message(1, "{}"), kContractPatience).kind, OutcomeKind::delivered);
    sink->send({}, collector_);
    sink->stop(Duration::zero());
    sink->send({}, collector_);
    EXPECT_EQ(collector_.count(), 0U);
}

TEST_P(SinkContract, AnOversizedMessageIsRefusedPermanentlyAndTheOthersAreNot) {
    const auto oversized = receiver_->oversized(1);
    if (!oversized) return;  // there is no limit
    const auto sink = receiver_->sink();
    std::vector<Message> sent = messages(3);
    sent[1] = *oversized;
    sink->send(pointers_to(sent), collector_);
    ASSERT_TRUE(collector_.wait_for(sent.size(), kContractPatience));
    sink->stop(Duration::zero());
    expect_true_outcomes(sent);
    EXPECT_EQ(collector_.of(1).front().kind, OutcomeKind::permanent) << collector_.of(1).front().code;
    EXPECT_FALSE(collector_.of(1).front().detail.empty());
    for (const std::int64_t id : {0, 2}) EXPECT_NE(collector_.of(id).front().kind, OutcomeKind::permanent) << id;
}

TEST_P(SinkContract, AStoppedSinkSendsNothing) {
    const auto sink = receiver_->sink();
    sink->stop(kContractPatience);  // nothing is under way: returns at once
    const auto sent = messages(3);
    sink->send(pointers_to(sent), collector_);
    ASSERT_TRUE(collector_.wait_for(sent.size(), Duration::zero())) << "it has to answer before send() returns";
    for (const Message& message : sent) {
        EXPECT_EQ(collector_.of(message.id).front().code, kStopped);
        EXPECT_EQ(collector_.of(message.id).front().kind, OutcomeKind::retryable);
    }
    sink->stop(Duration::zero());
    expect_true_outcomes(sent);
}

TEST_P(SinkContract, AStopInTheMiddleSaysWhatIsKnown) {
    const auto sink = receiver_->sink();
    const auto sent = messages(3000);
    sink->send(pointers_to(sent), collector_);
    ASSERT_TRUE(collector_.wait_for(10, kContractPatience));
    sink->stop(Duration::zero());
    expect_true_outcomes(sent);
}

TEST_P(SinkContract, APatientStopLetsEveryMessageArrive) {
    const auto sink = receiver_->sink();
    const auto sent = messages(300);
    sink->send(pointers_to(sent), collector_);
    sink->stop(kContractPatience);
    EXPECT_EQ(delivered(sent), sent.size());
    expect_true_outcomes(sent);
}

TEST_P(SinkContract, AStopEndsWithoutAnswersAndWhatNeverStartedIsRetryable) {
    const auto sink = receiver_->unanswered_sink();
    if (!sink) return;  // nothing is under way once send() has returned
    const auto sent = receiver_->unanswered_messages();
    sink->send(pointers_to(sent), collector_);
    receiver_->wait_until_started();
    const StoppedMessages stopped = stop_and_count(*sink, std::chrono::milliseconds(300), sent, collector_);
    EXPECT_LE(stopped.in_doubt, receiver_->most_under_way());
    EXPECT_EQ(collector_.of(sent.back().id).front().kind, OutcomeKind::retryable);
}

TEST_P(SinkContract, DestroyingStops) {
    auto sink = receiver_->unanswered_sink();
    if (!sink) return;
    const auto sent = receiver_->unanswered_messages();
    sink->send(pointers_to(sent), collector_);
    sink.reset();
    EXPECT_EQ(collector_.count(), sent.size());
}

}  // namespace deliverd::sink
