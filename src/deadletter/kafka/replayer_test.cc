#include "deadletter/kafka/replayer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "base/testing/recording_log.h"
#include "deadletter/kafka/testing/records.h"
#include "sink/sink.h"

namespace deliverd::deadletter {
namespace {

using sink::MockCluster;
using sink::OwnBroker;
using testing::HasSubstr;

std::vector<OutcomeKind> kinds_of(const std::vector<Outcome>& outcomes) {
    std::vector<OutcomeKind> kinds;
    for (const auto& outcome : outcomes) kinds.push_back(outcome.kind);
    return kinds;
}

rc::Gen<std::optional<std::string>> bytes_or_null() {
    const auto byte = rc::gen::arbitrary<char>();
    return rc::gen::oneOf(rc::gen::just(std::optional<std::string>()), rc::gen::just(std::optional<std::string>("")),
                          rc::gen::map(rc::gen::container<std::string>(byte),
                                       [](std::string bytes) { return std::optional(std::move(bytes)); }));
}

/// librdkafka gives a header's name as text that ends at its first NUL.
rc::Gen<std::string> header_name() {
    return rc::gen::container<std::string>(rc::gen::distinctFrom(rc::gen::arbitrary<char>(), '\0'));
}

rc::Gen<Record> any_record(const std::string& topic) {
    const auto header = rc::gen::build<RecordHeader>(
        rc::gen::set(&RecordHeader::name, rc::gen::oneOf(header_name(), rc::gen::element<std::string>("error", "x"))),
        rc::gen::set(&RecordHeader::value, bytes_or_null()));
    return rc::gen::build<Record>(
        rc::gen::set(&Record::topic, rc::gen::just(topic)), rc::gen::set(&Record::key, bytes_or_null()),
        rc::gen::set(&Record::value, bytes_or_null()),
        rc::gen::set(&Record::headers, rc::gen::container<std::vector<RecordHeader>>(header)));
}

bool same_bytes(const Record& one, const Record& other) {
    return one.key == other.key && one.value == other.value && one.headers == other.headers;
}

/// Publishes until all have this code, or a broker's patience is over: the last outcomes.
std::vector<Outcome> publish_until(Replayer& replayer, const std::vector<Record>& records, std::string_view code) {
    const auto end = std::chrono::steady_clock::now() + sink::kBrokerPatience;
    while (true) {
        auto outcomes = replayer.publish(records);
        const bool done = std::all_of(outcomes.begin(), outcomes.end(), [&](const auto& o) { return o.code == code; });
        if (done || std::chrono::steady_clock::now() > end) return outcomes;
    }
}

TEST(KafkaReplayer, PublishesTheDeadLetteredRecordByteForByte) {
    DELIVERD_NEEDS_REAL_KAFKA();
    RecordingLog log;
    const auto topics = real_topics();
    const auto dead = topics.make("dead");
    const auto source = topics.source(log);
    const auto back = real_topics();
    const auto original = back.make("original");  // read as dead letters are, to see what arrived
    const auto arrivals = back.source(log);
    const auto replayer = replayer_to(topics.brokers(), log);
    EXPECT_TRUE(rc::check([&] {
        const auto records = *rc::gen::nonEmpty(rc::gen::container<std::vector<Record>>(any_record(dead)));
        put(topics.brokers(), records);
        auto letters = read(*source, records.size());
        RC_ASSERT(letters.size() == records.size());
        for (std::size_t i = 0; i < records.size(); ++i) {
            RC_ASSERT(same_bytes(letters[i], records[i]));
            letters[i].topic = original;
        }
        const auto outcomes = replayer->publish(letters);
        RC_ASSERT(outcomes.size() == letters.size());
        for (const auto& outcome : outcomes) RC_ASSERT(outcome.kind == OutcomeKind::delivered);
        const auto arrived = read(*arrivals, records.size());
        RC_ASSERT(arrived.size() == records.size());
        for (std::size_t i = 0; i < records.size(); ++i) RC_ASSERT(same_bytes(arrived[i], records[i]));
        RC_ASSERT(outcomes.back().receipt == original + "[0]@" + std::to_string(arrived.back().offset));
    }));
}

TEST(KafkaReplayer, AKeyDecidesThePartitionAsForJava) {
    DELIVERD_NEEDS_REAL_KAFKA();
    RecordingLog log;
    const auto topics = real_topics();
    const auto topic = topics.make("a", 8);
    ReplayerOptions options;
    options.librdkafka = {{"sticky.partitioning.linger.ms", "0"}};
    const auto replayer = replayer_to(topics.brokers(), log, options);
    std::vector<Record> records;
    for (int i = 0; i < 300; ++i) {
        records.push_back(plain(topic, std::to_string(i), i % 8));  // which partition it had does not matter
        if (i % 3 == 1) records.back().key = "";
        if (i % 3 == 2) records.back().key = "foobar";
    }
    const auto outcomes = replayer->publish(records);
    std::set<std::string> of_null;
    std::set<std::string> of_empty;
    std::set<std::string> of_foobar;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
        ASSERT_EQ(outcomes[i].kind, OutcomeKind::delivered) << outcomes[i].detail;
        const auto place = outcomes[i].receipt->substr(0, outcomes[i].receipt->find('@'));
        (i % 3 == 0 ? of_null : i % 3 == 1 ? of_empty : of_foobar).insert(place);
    }
    // Kafka's own test of its hash has murmur2("") = 275646681 and murmur2("foobar") = -790332482; the sign bit goes.
    EXPECT_THAT(of_empty, testing::ElementsAre(topic + "[" + std::to_string(275646681 % 8) + "]"));
    EXPECT_THAT(of_foobar, testing::ElementsAre(topic + "[" + std::to_string((-790332482 & 0x7fffffff) % 8) + "]"));
    EXPECT_GT(of_null.size(), 1U);
}

TEST(KafkaReplayer, ManyCallsAtOnceGetTheirOwnOutcomes) {
    DELIVERD_NEEDS_REAL_KAFKA();
    RecordingLog log;
    const auto topics = real_topics();
    const auto good = topics.make("good", 3);
    const auto replayer = replayer_to(topics.brokers(), log);
    std::atomic<int> wrong = 0;
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 8; ++caller) {
        callers.emplace_back([&, caller] {
            for (int round = 0; round < 10; ++round) {
                std::vector<Record> records;
                for (int i = 0; i < 100; ++i) {
                    records.push_back(plain(i % 10 == caller ? "no topic's name" : good, std::string(2000, 'x')));
                }
                const auto outcomes = replayer->publish(records);
                for (int i = 0; i < 100; ++i) {
                    const auto& outcome = outcomes[static_cast<std::size_t>(i)];
                    const bool bad = i % 10 == caller;
                    if (outcome.kind != (bad ? OutcomeKind::permanent : OutcomeKind::delivered)) ++wrong;
                    if (!bad && !outcome.receipt->starts_with(good)) ++wrong;
                }
            }
        });
    }
    for (auto& caller : callers) caller.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(sink::read_topic(topics.brokers(), good).size(), 8U * 10U * 90U);
    EXPECT_TRUE(replayer->publish({}).empty());
}

TEST(KafkaReplayer, WhatCannotBePublishedSaysWhyAndItsNeighboursArrive) {
    DELIVERD_NEEDS_REAL_KAFKA();
    RecordingLog log;
    const auto topics = real_topics();
    const auto small = topics.make("small", 1, {{"max.message.bytes", "2000"}});
    const auto large = topics.make("large", 1, {{"max.message.bytes", "5000000"}});
    const auto missing = topics.name("missing");
    ReplayerOptions options;
    options.linger = 100ms;  // all of a topic in one batch
    const auto replayer = replayer_to(topics.brokers(), log, options);
    const std::vector<Record> records{plain(small, "1"), plain(small, std::string(3000, 'x')), plain(small, "2"),
                                      plain(missing, "3"), plain(large, std::string(4'000'000, 'x'))};
    const auto outcomes = replayer->publish(records);
    using enum OutcomeKind;
    ASSERT_THAT(kinds_of(outcomes), testing::ElementsAre(delivered, permanent, delivered, retryable, delivered));
    EXPECT_EQ(outcomes[1].code, "MESSAGE_TOO_LARGE");
    EXPECT_EQ(outcomes[3].code, "UNKNOWN_TOPIC");
    EXPECT_THAT(outcomes[3].detail, HasSubstr(missing));
    EXPECT_FALSE(outcomes[3].not_attempted);
}

TEST(KafkaReplayer, WithoutABrokerNothingWasTried) {
    RecordingLog log;
    ReplayerOptions options;
    options.timeout = 2s;
    const auto replayer = replayer_to("127.0.0.1:1", log, options);
    const std::vector<Record> records{plain("a", "1"), plain("b", "2")};
    // Until a connection was refused for the first time, nothing is known about the broker.
    for (const auto& outcome : publish_until(*replayer, records, sink::kBrokerUnreachable)) {
        EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
        EXPECT_EQ(outcome.code, sink::kBrokerUnreachable);
        EXPECT_TRUE(outcome.not_attempted);
    }
}

TEST(KafkaReplayer, WhatWasSentAndNotConfirmedIsInDoubt) {
    DELIVERD_NEEDS_REAL_KAFKA();
    RecordingLog log;
    OwnBroker kafka;
    sink::create_topic(kafka.brokers(), "a", 1);
    ReplayerOptions options;
    options.timeout = 2s;
    const auto replayer = replayer_to(kafka.brokers(), log, options);
    const std::vector<Record> records{plain("a", "1")};
    // A broker that has just started may take longer than that the first time.
    ASSERT_EQ(publish_until(*replayer, records, "")[0].kind, OutcomeKind::delivered);
    kafka.command("pause");
    const auto open = replayer->publish(records)[0];
    EXPECT_EQ(open.kind, OutcomeKind::ambiguous);
    EXPECT_EQ(open.code, "KAFKA_TIMEOUT");
    kafka.command("resume");
    EXPECT_EQ(publish_until(*replayer, records, "")[0].kind, OutcomeKind::delivered) << "the broker is found again";
}

TEST(KafkaReplayer, ARecordWithoutRoomIsReportedAsNotSent) {
    const MockCluster kafka;
    RecordingLog log;
    const auto topic = kafka.new_topic();
    ReplayerOptions options;
    options.timeout = 3s;
    const auto replayer = replayer_to(kafka.brokers(), log, options);
    ASSERT_EQ(replayer->publish(std::vector{plain(topic, "0")})[0].kind, OutcomeKind::delivered);
    rd_kafka_mock_broker_set_rtt(kafka.get(), 1, 30'000);  // takes what is sent, and answers too late
    const std::vector<Record> records(5, plain(topic, std::string(kWindowBytes / 3, 'x')));
    const auto outcomes = replayer->publish(records);
    std::size_t unsent = 0;
    for (const auto& outcome : outcomes) {
        EXPECT_NE(outcome.kind, OutcomeKind::delivered);
        if (outcome.code != "QUEUE_FULL") continue;
        EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
        EXPECT_TRUE(outcome.not_attempted);
        ++unsent;
    }
    EXPECT_GE(unsent, 1U);
    EXPECT_LE(unsent, 2U);  // three have room
}

TEST(KafkaReplayer, StopEndsWhatIsUnderWay) {
    const MockCluster kafka;
    RecordingLog log;
    const auto topic = kafka.new_topic();
    ReplayerOptions options;
    options.timeout = 60s;
    options.librdkafka = {{"batch.num.messages", "1"}};  // several requests, of which few can be in flight
    const auto replayer = replayer_to(kafka.brokers(), log, options);
    ASSERT_EQ(replayer->publish(std::vector{plain(topic, "0")})[0].kind, OutcomeKind::delivered);
    rd_kafka_mock_broker_set_rtt(kafka.get(), 1, 30'000);
    const std::vector<Record> small(200, plain(topic, "x"));
    const std::vector<Record> large(2, plain(topic, std::string(kWindowBytes, 'x')));  // waits for room
    std::vector<Outcome> outcomes;
    std::vector<Outcome> waiting;
    std::atomic<int> begun = 0;
    std::thread caller([&] { ++begun, outcomes = replayer->publish(small); });
    std::thread waiter([&] { ++begun, waiting = replayer->publish(large); });
    while (begun < 2) std::this_thread::yield();
    replayer->stop();
    caller.join();
    waiter.join();
    ASSERT_EQ(outcomes.size(), small.size());
    ASSERT_EQ(waiting.size(), large.size());
    outcomes.insert(outcomes.end(), waiting.begin(), waiting.end());
    outcomes.push_back(replayer->publish(std::vector{plain(topic, "late")})[0]);
    for (const auto& outcome : outcomes) {
        EXPECT_EQ(outcome.code, "STOPPED");
        EXPECT_TRUE(outcome.kind == OutcomeKind::ambiguous || outcome.not_attempted) << outcome.detail;
    }
    EXPECT_EQ(outcomes.back().kind, OutcomeKind::retryable);
}

}  // namespace
}  // namespace deliverd::deadletter
