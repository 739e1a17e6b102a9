// Real servers of the test's own, which are killed, paused and short of memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>

#include "sink/rabbitmq/rabbitmq_sink.h"
#include "sink/rabbitmq/testing/sink_fixture.h"
#include "sink/testing/stop_contract.h"

namespace deliverd::sink {
namespace {

using testing::HasSubstr;

constexpr int kKeys = 200;
constexpr int kEach = 100;
constexpr auto kLongPatience = std::chrono::seconds(150);
constexpr auto kPause = std::chrono::milliseconds(100);

/// As a lane does it: one message of a key at a time, in order, again until it is delivered.
class OrderedSender final : public OutcomeReceiver {
public:
    OrderedSender(Sink& sink, const std::string& topic) : sink_(sink) {
        for (int key = 0; key < kKeys; ++key) {
            for (int n = 0; n < kEach; ++n) {
                auto message = event(key * kEach + n, topic, std::to_string(n));
                message.key = std::to_string(key);
                messages_[key].push_back(std::move(message));
            }
        }
    }

    void on_outcome(const Message& message, Outcome outcome) override {
        const std::lock_guard lock(mutex_);
        ++outcomes_[message.id];
        if (outcome.kind == OutcomeKind::delivered) {
            ++delivered_[message.id];
            ++next_[std::stoi(message.key)];
            ++total_;
        }
        ++kinds_[std::string(to_string(outcome.kind)) + " " + outcome.code];
        if (outcome.kind != OutcomeKind::delivered) last_trouble_ = outcome.detail;
        put_off_ = put_off_ || outcome.not_attempted;
        idle_.push_back(std::stoi(message.key));
        changed_.notify_all();
    }

    /// Sends from this thread until all are delivered; calls `midway` once a third is.
    template <typename F>
    bool run(F midway) {
        const auto end = std::chrono::steady_clock::now() + kLongPatience;
        for (int key = 0; key < kKeys; ++key) idle_.push_back(key);
        bool is_midway = false;
        while (true) {
            std::vector<const Message*> batch;
            {
                std::unique_lock lock(mutex_);
                if (!changed_.wait_until(lock, end, [&] { return !idle_.empty() || total_ == kKeys * kEach; })) {
                    return false;
                }
                if (total_ == kKeys * kEach) return true;
                // As a lane does: while nothing is tried, asking at once again would only take the server's CPU.
                if (std::exchange(put_off_, false)) changed_.wait_for(lock, kPause, [] { return false; });
                for (const int key : std::exchange(idle_, {})) {
                    if (next_[key] == kEach) continue;
                    batch.push_back(&messages_[key][static_cast<std::size_t>(next_[key])]);
                    ++sent_[batch.back()->id];
                }
            }
            sink_.send(batch, *this);
            if (!is_midway && total_ >= kKeys * kEach / 3) {
                is_midway = true;
                midway();
            }
        }
    }

    std::map<std::int64_t, int> sent_;
    std::map<std::int64_t, int> outcomes_;
    std::map<std::int64_t, int> delivered_;
    std::map<std::string, int> kinds_;

    /// What came of it so far.
    [[nodiscard]] std::string told() {
        const std::lock_guard lock(mutex_);
        return "delivered " + std::to_string(total_) + ", outcomes " + testing::PrintToString(kinds_) +
               ", keys that wait for one " + std::to_string(kKeys - static_cast<int>(idle_.size())) +
               ", the last trouble: " + last_trouble_;
    }

private:
    Sink& sink_;
    std::map<int, std::vector<Message>> messages_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<int> idle_;
    bool put_off_ = false;
    std::string last_trouble_;
    std::map<int, int> next_;
    std::atomic<int> total_ = 0;
};

TEST(RabbitmqRestart, KilledInTheMiddleNothingIsLostAndFirstArrivalsAreInOrder) {
    OwnRabbit server;
    {
        RabbitClient(server.url()).declare_queue("kept");
    }
    server.tell("keep");
    NullLog log;
    RabbitmqSinkOptions options;
    options.url = server.url();
    auto sink = make_rabbitmq_sink(options, log);
    ASSERT_TRUE(sink);
    OrderedSender sender(**sink, "kept");
    const bool all_delivered = sender.run([&] {
        server.tell("kill9");
        server.tell("start");
    });
    (*sink)->stop(Duration::zero());  // before the sender ends, whatever came of it
    ASSERT_TRUE(all_delivered) << sender.told();
    EXPECT_EQ(sender.outcomes_, sender.sent_);  // one outcome for each time it was sent
    EXPECT_TRUE(sender.kinds_.contains("ambiguous CONNECTION_LOST") ||
                sender.kinds_.contains("retryable BROKER_UNREACHABLE"))
        << testing::PrintToString(sender.kinds_);
    std::map<std::string, int> next;
    std::set<std::string> seen;
    for (const auto& got : RabbitClient(server.url()).take_all("kept")) {
        if (!seen.insert(got.message_id).second) continue;  // a repeat
        auto& expected = next[got.headers.at("aggregate_id")];
        ASSERT_EQ(got.body, std::to_string(expected)) << got.headers.at("aggregate_id");
        ++expected;
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(kKeys * kEach));  // each was reported delivered
}

/// A server of the test's own with a queue "q" that has got its first message.
class RabbitmqRestartTest : public testing::Test {
protected:
    std::unique_ptr<Sink> proven_sink(RabbitmqSinkOptions options) {
        RabbitClient(server_.url()).declare_queue("q");
        options.url = server_.url();
        auto made = make_rabbitmq_sink(std::move(options), log_);
        EXPECT_TRUE(made) << made.error().message;
        // A server that has just started may take longer than the test's limits the first time.
        EXPECT_EQ(send_until_delivered(**made, event(1, "q")).kind, OutcomeKind::delivered);
        return std::move(*made);
    }

    OwnRabbit server_;
    NullLog log_;
};

TEST_F(RabbitmqRestartTest, APausedServerLeavesAMessageInDoubtAndItsLateConfirmSettlesNoOther) {
    RabbitmqSinkOptions options;
    options.timeout = std::chrono::seconds(1);
    options.connect_timeout = std::chrono::seconds(1);
    const auto sink = proven_sink(options);
    server_.tell("pause");
    auto outcome = send_one(*sink, event(2, "q"));
    EXPECT_EQ(outcome.kind, OutcomeKind::ambiguous);
    EXPECT_EQ(outcome.code, "CONFIRM_TIMEOUT");
    outcome = send_one(*sink, event(3, "q"));  // the silent connection was given up, and there is no other
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
    EXPECT_EQ(outcome.code, kBrokerUnreachable);
    EXPECT_TRUE(outcome.not_attempted);
    server_.tell("resume");
    EXPECT_EQ(send_until_delivered(*sink, event(4, "q")).kind, OutcomeKind::delivered);
    Outcome unroutable;  // would be taken for delivered by a confirm too many
    const auto end = std::chrono::steady_clock::now() + kTestPatience;
    do {
        unroutable = send_one(*sink, event(5, "nowhere"));  // a server that was paused is slow for a while
    } while ((unroutable.code == "CONFIRM_TIMEOUT" || unroutable.code == kBrokerUnreachable) &&
             std::chrono::steady_clock::now() < end);
    EXPECT_EQ(unroutable.code, "UNROUTABLE");
    std::set<std::string> arrived;
    for (const auto& got : RabbitClient(server_.url()).take_all("q")) arrived.insert(got.message_id);
    EXPECT_TRUE(arrived.contains("event-1") && arrived.contains("event-4"));
    EXPECT_FALSE(arrived.contains("event-3"));
}

TEST_F(RabbitmqRestartTest, APausedServerDoesNotHoldUpAStop) {
    RabbitmqSinkOptions options;
    options.timeout = kLongPatience;
    const auto sink = proven_sink(options);
    server_.tell("pause");
    std::vector<Message> messages;
    for (int i = 0; i < 100; ++i)
        messages.push_back(event(i, "q", std::string(400'000, 'x')));  // more than sockets take
    Collector collector;
    sink->send(pointers_to(messages), collector);
    stop_and_count(*sink, std::chrono::milliseconds(300), messages, collector);
    EXPECT_EQ(collector.of(99).front().kind, OutcomeKind::retryable);  // cannot have gone out
}

TEST_F(RabbitmqRestartTest, AServerShortOfMemoryGetsNothingUntilItUnblocks) {
    RabbitmqSinkOptions options;
    options.timeout = std::chrono::seconds(1);
    const auto sink = proven_sink(options);
    server_.tell("alarm");
    // It says that it is blocked when it gets a message, which is confirmed too late; then no more goes out.
    Outcome outcome;
    int id = 2;
    const auto end = std::chrono::steady_clock::now() + kTestPatience;
    while (outcome.code != "BROKER_BLOCKED" && std::chrono::steady_clock::now() < end) {
        outcome = send_one(*sink, event(++id, "q"));
    }
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
    EXPECT_EQ(outcome.code, "BROKER_BLOCKED");
    EXPECT_TRUE(outcome.not_attempted);
    EXPECT_THAT(outcome.detail, HasSubstr("low on memory"));
    server_.tell("calm");
    EXPECT_EQ(send_until_delivered(*sink, event(2, "q")).kind, OutcomeKind::delivered);
    std::set<std::string> arrived;
    for (const auto& got : RabbitClient(server_.url()).take_all("q")) arrived.insert(got.message_id);
    EXPECT_FALSE(arrived.contains("event-" + std::to_string(id)));
}

}  // namespace
}  // namespace deliverd::sink
