#include "sink/nats/nats_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sink/nats/testing/streams.h"
#include "sink/testing/collector.h"

namespace deliverd::sink {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::Pair;

Message event(std::int64_t id, std::string topic, std::string body = R"({"a": 1})") {
    auto message = test_message(id, std::move(body));
    message.key = "order-" + std::to_string(id);
    message.type = "OrderCreated";
    message.created_at = "2026-02-20T10:30:00.123Z";
    message.topic = std::move(topic);
    return message;
}

/// A stream of its own on the server all tests share.
class NatsSinkTest : public testing::Test {
protected:
    ~NatsSinkTest() override {
        if (made_) streams_.remove(name_);
    }

    void add_stream(const std::function<void(jsStreamConfig&)>& change = {}) {
        streams_.add(name_, change);
        made_ = true;
    }

    std::unique_ptr<Sink> sink(EventAttributesOptions attributes = {}) {
        NatsSinkOptions options;
        options.url = shared_nats_url();
        options.attributes = std::move(attributes);
        auto made = make_nats_sink(std::move(options), log_);
        EXPECT_TRUE(made) << made.error().message;
        return std::move(*made);
    }

    NullLog log_;
    const std::string name_ = fresh_nats_name();
    Streams streams_{shared_nats_url()};
    bool made_ = false;
};

TEST_F(NatsSinkTest, PublishesTheExactBytesWithTheirHeaders) {
    add_stream();
    const auto nats = sink();
    auto message = event(7, name_ + ".order.created", std::string("\0binary\r\n\xff", 10));
    message.headers = {{"traceparent", "00-ab-cd-01"}, {"note", "größe"}};
    const auto outcome = send_one(*nats, message);
    EXPECT_EQ(outcome.kind, OutcomeKind::delivered) << outcome.detail;
    EXPECT_EQ(outcome.receipt, name_ + "@1");
    const auto stored = streams_.get(name_, 1);
    EXPECT_EQ(stored.subject, message.topic);
    EXPECT_EQ(stored.data, message.body);
    const std::map<std::string, std::string> expected{
        {"Nats-Msg-Id", "memory-7"},    {"Content-Type", "application/json"},       {"aggregate_id", "order-7"},
        {"event_type", "OrderCreated"}, {"created_at", "2026-02-20T10:30:00.123Z"}, {"traceparent", "00-ab-cd-01"},
        {"note", "gr%C3%B6%C3%9Fe"}};
    EXPECT_EQ(stored.headers, expected);
}

TEST_F(NatsSinkTest, CloudEventsHaveTheirAttributesAsHeaders) {
    add_stream();
    const auto nats = sink({EventFormat::cloudevents, "/shop"});
    ASSERT_EQ(send_one(*nats, event(7, name_ + ".a")).kind, OutcomeKind::delivered);
    const auto headers = streams_.get(name_, 1).headers;
    EXPECT_THAT(headers, Contains(Pair("ce-specversion", "1.0")));
    EXPECT_THAT(headers, Contains(Pair("ce-id", "memory-7")));
    EXPECT_THAT(headers, Contains(Pair("ce-source", "/shop")));
    EXPECT_THAT(headers, Contains(Pair("ce-type", "OrderCreated")));
    EXPECT_THAT(headers, Contains(Pair("Nats-Msg-Id", "memory-7")));
    EXPECT_THAT(headers, Contains(Pair("Content-Type", "application/json")));
    EXPECT_THAT(headers, Not(Contains(Key("event_type"))));
}

TEST_F(NatsSinkTest, ARepeatIsDeliveredAndStoredOnce) {
    add_stream();
    const auto nats = sink();
    const auto message = event(1, name_ + ".a");
    const auto first = send_one(*nats, message);
    const auto second = send_one(*nats, message);
    EXPECT_EQ(first.kind, OutcomeKind::delivered);
    EXPECT_EQ(second.kind, OutcomeKind::delivered);
    EXPECT_EQ(second.receipt, first.receipt);
    EXPECT_EQ(streams_.count(name_), 1U);
}

/// The stream obeys `Nats-Rollup: all` by deleting all else, and drops a `Nats-Msg-Id` that it has seen.
TEST_F(NatsSinkTest, MetadataCanNeitherPurgeAStreamNorReplaceTheMessageId) {
    add_stream([](jsStreamConfig& config) { config.AllowRollup = true; });
    const auto nats = sink();
    auto purging = event(2, name_ + ".a");
    purging.headers = {{"Nats Rollup", "all"}};
    auto posing = event(3, name_ + ".a");
    posing.headers = {{"Nats:Msg-Id", "memory-1"}};
    for (const Message& message : {event(1, name_ + ".a"), purging, posing}) {
        EXPECT_EQ(send_one(*nats, message).kind, OutcomeKind::delivered);
    }
    EXPECT_EQ(streams_.count(name_), 3U);
    EXPECT_THAT(streams_.get(name_, 3).headers, Contains(Pair("Nats-Msg-Id", "memory-3")));
}

TEST_F(NatsSinkTest, ASubjectWithoutAStreamIsPermanentAndSaysWhatToDo) {
    const auto nats = sink();
    const auto outcome = send_one(*nats, event(1, name_ + ".nowhere"));
    EXPECT_EQ(outcome.kind, OutcomeKind::permanent) << outcome.detail;
    EXPECT_EQ(outcome.code, "NO_STREAM");
    EXPECT_THAT(outcome.detail, HasSubstr("'" + name_ + ".nowhere'"));
    EXPECT_THAT(outcome.detail, HasSubstr("create a stream that has this subject"));
    add_stream();
    EXPECT_EQ(send_one(*nats, event(1, name_ + ".nowhere")).kind, OutcomeKind::delivered);
}

TEST_F(NatsSinkTest, AFullStreamIsRetryable) {
    add_stream([](jsStreamConfig& config) {
        config.MaxMsgs = 2;
        config.Discard = js_DiscardNew;
    });
    const auto nats = sink();
    EXPECT_EQ(send_one(*nats, event(1, name_ + ".a")).kind, OutcomeKind::delivered);
    EXPECT_EQ(send_one(*nats, event(2, name_ + ".a")).kind, OutcomeKind::delivered);
    const auto full = send_one(*nats, event(3, name_ + ".a"));
    EXPECT_EQ(full.kind, OutcomeKind::retryable) << full.detail;
    EXPECT_EQ(full.code, "STREAM_FULL");
    EXPECT_FALSE(full.not_attempted);
    streams_.purge(name_);
    EXPECT_EQ(send_one(*nats, event(3, name_ + ".a")).kind, OutcomeKind::delivered);
}

TEST_F(NatsSinkTest, WhatIsTooLargeIsPermanent) {
    add_stream([](jsStreamConfig& config) { config.MaxMsgSize = 2000; });
    const auto nats = sink();
    for (const std::size_t bytes : {3000UL, 1048576UL - 10, 1048577UL, 5000000UL}) {  // the stream's, the server's
        const auto outcome = send_one(*nats, event(1, name_ + ".a", std::string(bytes, 'x')));
        EXPECT_EQ(outcome.kind, OutcomeKind::permanent) << bytes << outcome.detail;
        EXPECT_EQ(outcome.code, "MESSAGE_TOO_LARGE") << bytes;
    }
    EXPECT_EQ(send_one(*nats, event(1, name_ + ".a")).kind, OutcomeKind::delivered);
}

TEST_F(NatsSinkTest, ABadSubjectIsRefusedWithoutAskingTheServer) {
    const auto nats = sink();
    for (const auto* topic : {"", "a b", "a.*", "a.>", ".a", "a.", "a..b"}) {
        const auto outcome = send_one(*nats, event(1, topic));
        EXPECT_EQ(outcome.kind, OutcomeKind::permanent) << topic;
        EXPECT_EQ(outcome.code, "BAD_TOPIC") << topic;
    }
}

TEST_F(NatsSinkTest, AnotherProgramsAnswerIsAmbiguous) {
    natsConnection* other = nullptr;
    natsSubscription* replies = nullptr;
    ASSERT_EQ(natsConnection_ConnectTo(&other, shared_nats_url().c_str()), NATS_OK);
    const auto answer = [](natsConnection* connection, natsSubscription*, natsMsg* message, void*) {
        natsConnection_PublishString(connection, natsMsg_GetReply(message), "thanks");
        natsMsg_Destroy(message);
    };
    ASSERT_EQ(natsConnection_Subscribe(&replies, other, (name_ + ".a").c_str(), answer, nullptr), NATS_OK);
    ASSERT_EQ(natsConnection_Flush(other), NATS_OK);
    const auto outcome = send_one(*sink(), event(1, name_ + ".a"));
    EXPECT_EQ(outcome.kind, OutcomeKind::ambiguous);
    EXPECT_EQ(outcome.code, "UNKNOWN");
    natsSubscription_Destroy(replies);
    natsConnection_Destroy(other);
}

TEST_F(NatsSinkTest, ManyAtOnceEachGetOneOutcome) {
    add_stream();
    const auto nats = sink();
    constexpr int kCount = 20'000;  // more than the window
    std::vector<Message> messages;
    for (int i = 0; i < kCount; ++i) messages.push_back(event(i, name_ + ".a", std::string(200, 'x')));
    Collector collector;
    nats->send(pointers_to(messages), collector);
    ASSERT_TRUE(collector.wait_for(kCount));
    for (int i = 0; i < kCount; ++i) {
        const auto outcomes = collector.of(i);
        ASSERT_EQ(outcomes.size(), 1U);
        ASSERT_EQ(outcomes.front().kind, OutcomeKind::delivered) << outcomes.front().detail;
        ASSERT_EQ(outcomes.front().receipt, name_ + "@" + std::to_string(i + 1));  // published in the order given
    }
    EXPECT_EQ(streams_.count(name_), static_cast<std::uint64_t>(kCount));
}

TEST_F(NatsSinkTest, ChecksWithoutPublishing) {
    add_stream();
    EXPECT_TRUE(sink()->check(5s));
    EXPECT_EQ(streams_.count(name_), 0U);
}

TEST(NatsOptions, ThatCannotWorkAreRefusedWithoutRepeatingThem) {
    NullLog log;
    const auto refused = [&](NatsSinkOptions options) {
        const auto made = make_nats_sink(std::move(options), log);
        return made ? std::string("made") : made.error().code + ": " + made.error().message;
    };
    NatsSinkOptions options;
    for (const auto* url : {"", "http://u:s3cret@host", "nats://", "nats://u:s3cret@", "nats://u:s3cret@ho st",
                            "nats://u:s3cret@host:port", "nats://a,,nats://b", "nats://u:s3cret@host:123456", "host"}) {
        options.url = url;
        EXPECT_THAT(refused(options), testing::StartsWith("bad_argument")) << url;
        EXPECT_THAT(refused(options), Not(HasSubstr("s3cret"))) << url;
    }
    for (const auto* url : {"nats://host", "tls://u:p@host:4222", "nats://a:1,nats://b:2", "nats://[::1]:4222"}) {
        options.url = url;
        EXPECT_TRUE(check_nats_options(options)) << url;
    }
    options.ca_file = "/nowhere/ca.pem";
    EXPECT_THAT(refused(options), HasSubstr("/nowhere/ca.pem"));
    options.ca_file.clear();
    options.token_file = "a";
    options.credentials_file = "b";
    EXPECT_THAT(refused(options), HasSubstr("takes one"));
}

}  // namespace
}  // namespace deliverd::sink
