// The threads around the core, on a table in memory and a sink that does as told.
#include "relay/relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "pipeline/testing/fakes.h"
#include "relay/testing/fake_events.h"

namespace deliverd::relay {
namespace {

using pipeline::eventually;
using pipeline::LaneTotals;
using pipeline::ScriptedSink;

/// Refuses settles while told to.
class SwitchedEvents final : public store::EventOutbox {
public:
    explicit SwitchedEvents(FakeEvents& inner) : inner_(inner) {}
    Result<store::EventBatch> read(const store::EventRead& request) override { return inner_.read(request); }
    Result<std::vector<store::EventSettled>> settle(std::string_view owner,
                                                    std::span<const store::EventSettlement> settlements) override {
        if (settle_fails) return retryable("db_unreachable", "switched off");
        return inner_.settle(owner, settlements);
    }
    Result<store::ShardShare> tend(std::string_view owner, Duration lease) override {
        return inner_.tend(owner, lease);
    }
    Result<void> release(std::string_view owner, std::span<const store::ShardLease> leases) override {
        return inner_.release(owner, leases);
    }
    Result<void> leave(std::string_view owner) override { return inner_.leave(owner); }
    Result<void> set_asleep(std::string_view owner, bool asleep) override { return inner_.set_asleep(owner, asleep); }
    std::unique_ptr<store::EventListener> listen(std::function<void()> on_event) override {
        return inner_.listen(std::move(on_event));
    }
    Result<double> lag_seconds() override { return inner_.lag_seconds(); }
    Result<store::RowCounts> counts() override { return inner_.counts(); }
    Result<void> ping(Duration) override { return {}; }
    Result<std::int64_t> remove_published(Duration, std::int32_t) override { return 0; }
    Result<std::vector<store::Finding>> inspect() override { return inner_.inspect(); }

    std::atomic<bool> settle_fails{false};

private:
    FakeEvents& inner_;
};

class RelayTest : public ::testing::Test {
protected:
    RelayTest() {
        options_.name = "events";
        options_.worker_id = "r1";
        options_.topic = *TopicTemplate::parse("{event_type}");
        options_.idle_poll = std::chrono::milliseconds(100);
        options_.lease = std::chrono::milliseconds(600);
        options_.retry = RetryPolicy{.base_seconds = 0.01, .cap_seconds = 0.02, .dead_at_failures = 3};
    }
    std::unique_ptr<Relay> make(const std::string& owner = "r1") {
        RelayOptions options = options_;
        options.worker_id = owner;
        return std::make_unique<Relay>(options, switched_, sink_, clock_, random_, observer_, log_);
    }
    bool all_published() {
        const store::RowCounts counts = *table_.counts();
        return counts.pending == 0 && counts.dead == 0;
    }
    /// What was sent of one aggregate, in order; events 1, 2, … go round the aggregates.
    std::vector<std::int64_t> sends_of(std::int64_t aggregate, std::int64_t aggregates) {
        std::vector<std::int64_t> ids;
        for (const std::int64_t id : sink_.sends()) {
            if (id % aggregates == aggregate) ids.push_back(id);
        }
        return ids;
    }

    SystemClock clock_;
    SeededRandom random_{1};
    FakeEvents table_{{.shards = 8}, [this] { return clock_.now().time_since_epoch(); }};
    SwitchedEvents switched_{table_};
    ScriptedSink sink_;
    pipeline::Observer observer_;
    pipeline::RecordingLog log_;
    RelayOptions options_;
};

TEST_F(RelayTest, RelaysEverythingOnceAndInOrder) {
    for (int i = 1; i <= 3000; ++i) table_.add("a" + std::to_string(i % 30));
    const auto relay = make();
    relay->start();
    EXPECT_TRUE(eventually([&] { return all_published(); }));
    relay->stop(std::chrono::seconds(5));
    EXPECT_EQ(sink_.sends().size(), 3000U);
    for (std::int64_t aggregate = 0; aggregate < 30; ++aggregate) {
        const auto sends = sends_of(aggregate, 30);
        EXPECT_TRUE(std::is_sorted(sends.begin(), sends.end()));
    }
    const LaneTotals totals = relay->totals();
    EXPECT_EQ(totals.claimed, 3000U);
    EXPECT_EQ(totals.sent, 3000U);
    EXPECT_FALSE(totals.anything_failed());
    EXPECT_EQ(table_.shards().at(0).owner, "") << "given back";
}

TEST_F(RelayTest, FailuresAreTriedAgainAndKeepTheirOrder) {
    std::mutex mutex;
    std::map<std::int64_t, int> tries;
    std::vector<std::int64_t> taken;
    sink_.answer = [&](const Message& message) {
        const std::lock_guard lock(mutex);
        if (message.id % 7 == 0 && tries[message.id]++ < 2) return Outcome{.kind = OutcomeKind::retryable};
        if (message.id == 50) return Outcome{.kind = OutcomeKind::permanent, .code = "TOO_LARGE"};
        taken.push_back(message.id);
        return Outcome{.kind = OutcomeKind::delivered};
    };
    for (int i = 1; i <= 500; ++i) table_.add("a" + std::to_string(i % 10));
    const auto relay = make();
    relay->start();
    EXPECT_TRUE(eventually([&] { return table_.counts()->pending == 0; }));
    relay->stop(std::chrono::seconds(5));
    const std::lock_guard lock(mutex);
    EXPECT_EQ(taken.size(), 499U);
    for (std::int64_t aggregate = 0; aggregate < 10; ++aggregate) {
        std::vector<std::int64_t> of_one;
        std::copy_if(taken.begin(), taken.end(), std::back_inserter(of_one),
                     [&](std::int64_t id) { return id % 10 == aggregate; });
        EXPECT_TRUE(std::is_sorted(of_one.begin(), of_one.end())) << aggregate;
    }
    EXPECT_EQ(relay->totals().dead, 1U);
    EXPECT_EQ(relay->totals().retried, 142U);
}

TEST_F(RelayTest, TwoRelaysShareAndOneTakesOverWhenTheOtherLeaves) {
    options_.lease = std::chrono::seconds(4);  // a relay that is late to tend would lose its shards and send twice
    const auto first = make("r1");
    first->start();
    const auto owned = [&](const std::string& owner) {
        const auto shards = table_.shards();
        return std::count_if(shards.begin(), shards.end(),
                             [&](const auto& entry) { return entry.second.owner == owner; });
    };
    EXPECT_TRUE(eventually([&] { return owned("r1") == 8; }));
    ScriptedSink other_sink;
    RelayOptions options = options_;
    options.worker_id = "r2";
    Relay second(options, switched_, other_sink, clock_, random_, observer_, log_);
    second.start();
    EXPECT_TRUE(eventually([&] { return owned("r1") == 4 && owned("r2") == 4; }));
    for (int i = 1; i <= 300; ++i) table_.add("a" + std::to_string(i % 30));
    EXPECT_TRUE(eventually([&] { return all_published(); }));
    EXPECT_GT(other_sink.sends().size(), 0U);
    EXPECT_EQ(sink_.sends().size() + other_sink.sends().size(), 300U);
    first->stop(std::chrono::seconds(5));
    EXPECT_TRUE(eventually([&] { return owned("r2") == 8; }));
    for (int i = 1; i <= 300; ++i) table_.add("a" + std::to_string(i % 30));
    EXPECT_TRUE(eventually([&] { return all_published(); }));
    EXPECT_EQ(sink_.sends().size() + other_sink.sends().size(), 600U);
}

TEST_F(RelayTest, SleepsAndIsWokenByAWriter) {
    options_.idle_poll = std::chrono::hours(1);
    const auto relay = make();
    relay->start();
    ASSERT_TRUE(eventually([&] { return table_.asleep() == 1; }));
    table_.add("a");
    EXPECT_TRUE(eventually([&] { return all_published(); }));
    EXPECT_TRUE(eventually([&] { return table_.asleep() == 1; })) << "asleep again";
}

TEST_F(RelayTest, WhileAsleepItFindsEventsWrittenBeforeAndCommittedAfterwards) {
    options_.busy_poll = options_.idle_poll = std::chrono::hours(1);  // no poll comes by itself
    const std::int64_t id = table_.begin("a");                        // it notifies nobody: nobody sleeps yet
    const auto relay = make();
    relay->start();
    ASSERT_TRUE(eventually([&] { return table_.asleep() == 1; }));
    table_.commit(id);
    EXPECT_TRUE(eventually([&] { return all_published(); }));
}

TEST_F(RelayTest, WhileSettlesFailItWaitsAndSendsNothingTwice) {
    switched_.settle_fails = true;
    for (int i = 1; i <= 20; ++i) table_.add("a" + std::to_string(i % 5));
    const auto relay = make();
    relay->start();
    ASSERT_TRUE(eventually([&] { return relay->totals().database_errors >= 3 && sink_.sends().size() == 20; }));
    switched_.settle_fails = false;
    EXPECT_TRUE(eventually([&] { return all_published(); }));
    EXPECT_EQ(sink_.sends().size(), 20U);
}

TEST_F(RelayTest, AStopWaitsForTheSinkAndRecordsItsOutcomes) {
    sink_.hold = true;
    for (int i = 1; i <= 4; ++i) table_.add(i <= 2 ? "a" : "b");
    const auto relay = make();
    relay->start();
    ASSERT_TRUE(eventually([&] { return sink_.held() == 2; }));
    relay->drain();
    std::thread stopping([&] { relay->stop(std::chrono::seconds(20)); });
    sink_.release({.kind = OutcomeKind::delivered});
    stopping.join();
    EXPECT_EQ(relay->totals().sent, 2U);
    EXPECT_EQ(relay->totals().released, 2U);
    EXPECT_EQ(relay->totals().abandoned, 0U);
    EXPECT_EQ(sink_.sent_after_stop, 0);
}

TEST_F(RelayTest, AHurriedStopLeavesWhatIsAtTheSink) {
    sink_.hold = true;
    table_.add("a");
    const auto relay = make();
    relay->start();
    ASSERT_TRUE(eventually([&] { return sink_.held() == 1; }));
    std::thread stopping([&] { relay->stop(std::chrono::hours(1)); });
    relay->hurry();
    stopping.join();
    EXPECT_EQ(relay->totals().abandoned, 1U);
    EXPECT_EQ(table_.counts()->pending, 1);
}

TEST_F(RelayTest, RunOnceRelaysOneBatch) {
    options_.batch_size = 10;
    for (int i = 1; i <= 25; ++i) table_.add("a" + std::to_string(i % 5));
    const LaneTotals totals = make()->run_once(std::chrono::seconds(5));
    EXPECT_EQ(totals.sent, 10U);
    EXPECT_FALSE(totals.anything_failed());
    EXPECT_EQ(sink_.sends().size(), 10U);
    EXPECT_EQ(table_.counts()->pending, 15);
    EXPECT_EQ(table_.shards().at(0).owner, "");
}

TEST_F(RelayTest, RunOnceInStrictOrderWaitsUntilABatchIsCertain) {
    options_.strict_order = true;
    options_.batch_size = 10;
    for (int i = 1; i <= 25; ++i) table_.add("a" + std::to_string(i % 5));
    EXPECT_EQ(make()->run_once(std::chrono::seconds(5)).sent, 10U);
}

TEST_F(RelayTest, RunOnceEndsWhenNothingCanBeSent) {
    sink_.answer = [](const Message&) {
        return Outcome{.kind = OutcomeKind::retryable, .code = "BROKER_UNREACHABLE", .not_attempted = true};
    };
    table_.add("a");
    const LaneTotals totals = make()->run_once(std::chrono::seconds(5));
    EXPECT_EQ(totals.put_off, 1U);
    EXPECT_EQ(totals.released, 1U);
    EXPECT_EQ(totals.retried, 0U);
    EXPECT_TRUE(totals.anything_failed());
}

TEST_F(RelayTest, ATableOfUuidsIsRelayedWhereverItsRowsAre) {
    FakeEvents::Options uuids;
    uuids.uuids = true;
    FakeEvents table(uuids, [this] { return clock_.now().time_since_epoch(); });
    const std::int64_t late = table.begin("z");
    for (int i = 0; i < 100; ++i) table.add("a" + std::to_string(i % 9));
    Relay relay(options_, table, sink_, clock_, random_, observer_, log_);
    relay.start();
    ASSERT_TRUE(eventually([&] { return table.counts()->pending == 0; }));
    table.commit(late);
    EXPECT_TRUE(eventually([&] { return table.counts()->sent == 101; }));
    relay.stop(std::chrono::seconds(5));
    EXPECT_EQ(relay.totals().sent, 101U);
}

}  // namespace
}  // namespace deliverd::relay
