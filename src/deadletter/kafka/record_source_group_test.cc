// Several members, brokers that die, groups that refuse. Where a fault has to come at a certain moment, librdkafka's
// mock cluster makes it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <iostream>
#include <mutex>
#include <set>
#include <thread>

#include "base/testing/recording_log.h"
#include "deadletter/kafka/testing/records.h"

namespace deliverd::deadletter {
namespace {

using sink::MockCluster;
using sink::OwnBroker;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

/// Everything that any member stored.
class Stored {
public:
    void add(const std::vector<Record>& records) {
        const std::lock_guard lock(mutex_);
        for (const auto& record : records) values_.insert(record.value.value_or("null"));
    }
    [[nodiscard]] std::size_t count() {
        const std::lock_guard lock(mutex_);
        return values_.size();
    }

private:
    std::mutex mutex_;
    std::set<std::string> values_;
};

/// One that polls, stores and commits on a thread of its own, until it is let go.
class Member {
public:
    Member(const DeadLetterTopics& topics, Log& log, Stored& stored)
        : source_(topics.source(log)), thread_([this, &stored] {
              while (!done_) {
                  const auto records = source_->poll(50, 1U << 20U, 50ms);
                  if (!records || records->empty()) continue;
                  stored.add(*records);
                  given_ += records->size();
                  static_cast<void>(source_->commit(10s));  // may fail while the group is balanced: read again
              }
          }) {}
    ~Member() {
        done_ = true;
        source_->wake();
        thread_.join();
    }
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    [[nodiscard]] std::size_t given() const { return given_; }

private:
    std::unique_ptr<RecordSource> source_;
    std::atomic<bool> done_ = false;
    std::atomic<std::size_t> given_ = 0;
    std::thread thread_;
};

class KafkaSourceGroup : public testing::Test {
protected:
    void TearDown() override {
        if (HasFailure()) std::cout << stored_.count() << " stored\n" << log_.text();
    }
    template <typename Done>
    static void wait_until(Done done) {
        const auto end = std::chrono::steady_clock::now() + sink::kBrokerPatience;
        while (!done()) {
            ASSERT_LT(std::chrono::steady_clock::now(), end) << "what was waited for did not come";
            std::this_thread::yield();
        }
    }

    RecordingLog log_;
    Stored stored_;
};

TEST_F(KafkaSourceGroup, MembersComeAndGoAndNothingIsLost) {
    DELIVERD_NEEDS_REAL_KAFKA();
    const auto topics = real_topics();
    const std::vector<std::string> names{topics.make("a", 4), topics.make("b", 3), topics.make("c", 1)};
    int made = 0;
    const auto put_some = [&] {
        std::vector<Record> records;
        for (int i = 0; i < 300; ++i, ++made) {
            const auto which = static_cast<std::size_t>(made) % names.size();
            records.push_back(
                plain(names[which], std::to_string(made), made / 3 % static_cast<int>(which == 2 ? 1 : 3)));
        }
        put(topics.brokers(), records);
    };
    {
        auto first = std::make_unique<Member>(topics, log_, stored_);
        wait_until([&] { return put_some(), first->given() > 0; });
        auto second = std::make_unique<Member>(topics, log_, stored_);
        wait_until([&] { return put_some(), second->given() > 0; });
        const auto before = first->given();
        wait_until([&] { return put_some(), first->given() > before; });  // both have some
        first.reset();
        put_some();
        wait_until([&] { return stored_.count() == static_cast<std::size_t>(made); });
    }
    for (const auto& name : names) put(topics.brokers(), {plain(name, "last")});
    const auto after = topics.source(log_);
    EXPECT_THAT(values_of(read(*after, 3)), ElementsAre("last", "last", "last"));  // all else was committed
}

TEST_F(KafkaSourceGroup, WhatWentToAnotherMemberIsNotCommitted) {
    DELIVERD_NEEDS_REAL_KAFKA();
    const auto topics = real_topics();
    const auto topic = topics.make("a", 4);
    put(topics.brokers(), numbered(topic, 0, 40, 4));
    const auto first = topics.source(log_);
    ASSERT_EQ(read(*first, 40).size(), 40U);
    const auto second = topics.source(log_);
    std::set<std::int32_t> seconds;
    poll_until(
        *first, [](const auto&) {},
        [&] {
            for (const auto& record : poll_once(*second)) seconds.insert(record.partition);
            return seconds.size() == 2;
        });
    ASSERT_TRUE(first->commit(10s));
    for (const auto partition : seconds) EXPECT_LT(topics.committed(topic, partition), 0) << partition;
    std::set<std::int32_t> firsts;  // and what it still has, it may
    poll_until(
        *first,
        [&](const auto& records) {
            for (const auto& record : records) firsts.insert(record.partition);
        },
        [&] { return !firsts.empty() || topics.committed(topic, 0) >= 0 || topics.committed(topic, 1) >= 0; });
    ASSERT_TRUE(first->commit(10s));
    for (std::int32_t partition = 0; partition < 4; ++partition) {
        EXPECT_EQ(topics.committed(topic, partition) >= 0, !seconds.contains(partition)) << partition;
    }
}

/// What was read before a rebalance and not committed is read again after it: so the last commit need not be of all.
bool all_committed(const DeadLetterTopics& topics, const std::string& topic, std::int32_t partitions,
                   std::int64_t offset) {
    for (std::int32_t partition = 0; partition < partitions; ++partition) {
        if (topics.committed(topic, partition) != offset) return false;
    }
    return true;
}

TEST_F(KafkaSourceGroup, ARebalanceDuringAPauseForgetsNothing) {
    DELIVERD_NEEDS_REAL_KAFKA();
    const auto topics = real_topics();
    const auto topic = topics.make("a", 4);
    put(topics.brokers(), numbered(topic, 0, 40, 4));
    const auto first = topics.source(log_);
    ASSERT_EQ(read(*first, 40).size(), 40U);
    first->pause();
    auto second = topics.source(log_);
    bool came = false;
    poll_until(
        *first, [](const auto& records) { EXPECT_EQ(records.size(), 0U); },
        [&] { return came = came || !poll_once(*second).empty(); });
    second.reset();
    first->resume();
    std::set<std::string> values;
    poll_until(
        *first,
        [&](const auto& records) {
            for (const auto& value : values_of(records)) values.insert(value);
        },
        [&] { return values.size() == 40 && first->commit(10s) && all_committed(topics, topic, 4, 10); });
}

TEST_F(KafkaSourceGroup, ReadingContinuesAfterABrokerDiedAndReturned) {
    DELIVERD_NEEDS_REAL_KAFKA();
    OwnBroker kafka;
    const DeadLetterTopics topics(kafka.brokers());
    const auto topic = topics.make("a", 2);
    put(topics.brokers(), numbered(topic, 0, 500, 2));
    const auto source = topics.source(log_);
    const auto store = [&](const std::vector<Record>& records) { stored_.add(records); };
    stored_.add(read(*source, 100));
    ASSERT_TRUE(source->commit(10s));
    stored_.add(read(*source, 100));
    kafka.command("kill9");
    EXPECT_FALSE(source->commit(500ms));
    poll_until(*source, store, [&] { return log_.text().find("brokers are down") != std::string::npos; });
    kafka.command("start");
    put(topics.brokers(), numbered(topic, 500, 500, 2));
    poll_until(*source, store, [&] { return stored_.count() == 1000; });
    // librdkafka repeats the commit that had no answer, and it may come last: the next one is right again.
    int written = 1000;
    poll_until(*source, store, [&] {
        if (stored_.count() < static_cast<std::size_t>(written) || !source->commit(10s)) return false;
        if (topics.committed(topic, 0) == written / 2 && topics.committed(topic, 1) == written / 2) return true;
        put(topics.brokers(), numbered(topic, written, 2, 2));
        written += 2;
        return false;
    });
    EXPECT_LT(log_.events().size(), 100);
}

TEST_F(KafkaSourceGroup, WithoutABrokerItKeepsTryingAndLogsItNowAndThen) {
    const DeadLetterTopics topics("127.0.0.1:1");
    const auto source = topics.source(log_);
    poll_until(
        *source, [](const auto& records) { EXPECT_EQ(records.size(), 0U); },
        [&] { return log_.text().find("refused") != std::string::npos; });
    for (int i = 0; i < 10; ++i) EXPECT_EQ(poll_once(*source, 100ms).size(), 0U);
    source->pause();
    source->resume();
    EXPECT_LE(log_.events().size(), 20);
}

std::size_t resident_bytes() {
    std::ifstream file("/proc/self/statm");
    std::size_t all = 0;
    std::size_t resident = 0;
    file >> all >> resident;
    return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST_F(KafkaSourceGroup, WhatIsReadAheadIsBounded) {
    DELIVERD_NEEDS_REAL_KAFKA();
    const auto topics = real_topics();
    const auto topic = topics.make("a", 4);
    for (int i = 0; i < 20; ++i) {  // 160 MB
        std::vector<Record> records;
        for (int j = 0; j < 16; ++j) records.push_back(plain(topic, std::string(500'000, 'x'), j % 4));
        put(topics.brokers(), records);
    }
    auto options = topics.options();
    options.prefetch_bytes = 4U << 20U;
    const auto before = resident_bytes();
    const auto source = topics.source(options, log_);
    ASSERT_EQ(read(*source, 1).size(), 1U);
    std::size_t most = 0;
    const auto look = [&] { most = std::max(most, resident_bytes()); };
    const auto end = std::chrono::steady_clock::now() + 3s;  // it could have read all of it by then
    while (std::chrono::steady_clock::now() < end) look();
    source->pause();
    for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(poll_once(*source, 100ms).size(), 0U);
        look();
    }
    EXPECT_LT(most - std::min(before, most), 100U << 20U) << "a sanitizer's own share included";
}

constexpr std::int16_t kOffsetCommitRequest = 8;
constexpr std::int16_t kJoinGroupRequest = 11;

TEST_F(KafkaSourceGroup, AGroupThatRefusesIsAskedAgain) {
    const MockCluster kafka;
    const DeadLetterTopics topics(kafka.brokers());
    rd_kafka_mock_topic_create(kafka.get(), topics.name("a").c_str(), 1, 1);
    put(topics.brokers(), numbered(topics.name("a"), 0, 3));
    rd_kafka_mock_push_request_errors(kafka.get(), kJoinGroupRequest, 2, RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED,
                                      RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED);
    const auto source = topics.source(log_);
    EXPECT_THAT(values_of(read(*source, 3)), ElementsAre("0", "1", "2"));
    EXPECT_THAT(log_.text(), HasSubstr("GROUP_AUTHORIZATION_FAILED"));
}

TEST_F(KafkaSourceGroup, ACommitThatFailsIsMadeUpForByTheNext) {
    const MockCluster kafka;
    const DeadLetterTopics topics(kafka.brokers());
    const auto topic = topics.name("a");
    rd_kafka_mock_topic_create(kafka.get(), topic.c_str(), 1, 1);
    put(topics.brokers(), numbered(topic, 0, 6));
    const auto source = topics.source(log_);
    ASSERT_EQ(read(*source, 3).size(), 3U);
    rd_kafka_mock_push_request_errors(kafka.get(), kOffsetCommitRequest, 1,
                                      RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED);
    const auto refused = source->commit(10s);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().error_class, ErrorClass::retryable);
    EXPECT_THAT(refused.error().message, HasSubstr("authorization"));
    EXPECT_LT(topics.committed(topic, 0), 0);
    ASSERT_TRUE(source->commit(10s));
    EXPECT_EQ(topics.committed(topic, 0), 3);

    ASSERT_EQ(read(*source, 3).size(), 3U);
    rd_kafka_mock_broker_set_rtt(kafka.get(), 1, 3000);
    const auto late = source->commit(50ms);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().error_class, ErrorClass::retryable);
    EXPECT_THAT(late.error().message, HasSubstr("in time"));
    rd_kafka_mock_broker_set_rtt(kafka.get(), 1, 0);
    wait_until([&] { return source->commit(10s).has_value(); });
    EXPECT_EQ(topics.committed(topic, 0), 6);
}

}  // namespace
}  // namespace deliverd::deadletter
