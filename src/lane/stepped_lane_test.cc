// An orders lane on a clock of its own: exact waits, pauses and rates, and the rescue of stuck rows.
#include "lane/testing/stepped_lane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lane/testing/fakes.h"
#include "message/http_answer.h"

namespace deliverd::lane {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::HasSubstr;

struct BrokerSays {
    int status = 201;
    std::string retry_after{};
};

/// Takes each order at once and answers as told, unless it keeps quiet.
class Broker final : public sink::Sink {
public:
    explicit Broker(const ManualClock& clock) : clock_(clock) {}

    struct Send {
        std::int64_t id;
        Duration at;
    };

    void send(std::span<const Message* const> messages, sink::OutcomeReceiver& receiver) override {
        for (const Message* message : messages) {
            sends.push_back({message->id, clock_.elapsed()});
            if (quiet) continue;
            const BrokerSays said = answer(sends.size());
            const std::string body = R"({"idempotency_key":")" + message->message_id + "\"}";
            receiver.on_outcome(*message, classify_broker_answer({said.status, body, said.retry_after}, false,
                                                                 message->message_id, {}, clock_.wall_now()));
        }
    }
    void stop(Duration) override {}
    Result<void> check(Duration) override { return {}; }

    [[nodiscard]] std::size_t sent_between(Duration from, Duration until) const {
        return static_cast<std::size_t>(std::count_if(
            sends.begin(), sends.end(), [&](const Send& send) { return from <= send.at && send.at < until; }));
    }

    std::function<BrokerSays(std::size_t)> answer = [](std::size_t) { return BrokerSays{}; };  // to the n-th send
    bool quiet = false;
    std::vector<Send> sends;

private:
    const ManualClock& clock_;
};

class Recorder final : public Observer {
public:
    void on_claimed(std::size_t rows) override { (rows > 0 ? looks_with_rows : looks_without) += 1; }
    void on_settled(const store::Settlement& settlement) override { settled.push_back(settlement); }
    void on_send_rate(double per_second) override { rates.push_back(per_second); }
    void on_queue_depth(std::string_view queue, std::size_t items) override {
        depths[std::string(queue)] = items;
        deepest[std::string(queue)] = std::max(deepest[std::string(queue)], items);
    }

    int looks_with_rows = 0;
    int looks_without = 0;
    std::vector<store::Settlement> settled;
    std::vector<double> rates;
    std::map<std::string, std::size_t> depths;   // as last told
    std::map<std::string, std::size_t> deepest;  // of all times
};

class OrdersLane : public testing::Test {
protected:
    OrdersLane() {
        options.name = "orders";
        options.worker_id = "w1";
        options.batch_size = 32;
        options.parallelism = 4;
        options.lease = 10min;
        options.retry = RetryPolicy::orders();
        options.idle_poll = 200ms;
        options.throttle = true;
        options.rescue_interval = 30s;
        fake.claims_expired = false;
    }

    void enqueue(int rows) {
        for (int i = 0; i < rows; ++i) fake.enqueue("");
    }
    SteppedLane& lane() {
        if (!lane_) lane_.emplace(options, outbox, broker, clock, recorder, log);
        return *lane_;
    }
    [[nodiscard]] bool all_ended() {
        return std::none_of(fake.rows().begin(), fake.rows().end(),
                            [](const auto& entry) { return entry.second.status == "pending"; });
    }

    /// The n-th settlement was a retry after `seconds` ±10 %, and the next send came when that had passed: no earlier,
    /// and no later than the settle and the next look at the table take.
    void expect_wait(std::size_t n, double seconds) {
        ASSERT_LT(n, recorder.settled.size());
        const store::Settlement& settlement = recorder.settled[n];
        EXPECT_EQ(settlement.kind, store::SettleKind::retry);
        EXPECT_GE(to_seconds(settlement.delay), seconds * 0.9);
        EXPECT_LE(to_seconds(settlement.delay), seconds * 1.1);
        ASSERT_LT(n + 1, broker.sends.size());
        const Duration waited = broker.sends[n + 1].at - broker.sends[n].at;
        EXPECT_GE(waited, settlement.delay);
        EXPECT_LE(waited, settlement.delay + options.settle_linger + options.idle_poll);
    }

    ManualClock clock;
    FakeOutbox fake{[this] { return clock.elapsed(); }};
    SwitchedOutbox outbox{fake};
    Broker broker{clock};
    Recorder recorder;
    RecordingLog log;
    LaneOptions options;

private:
    std::optional<SteppedLane> lane_;
};

TEST_F(OrdersLane, TwoFailuresAreTwoBackoffsBeforeItIsSent) {
    broker.answer = [](std::size_t n) { return BrokerSays{.status = n <= 2 ? 503 : 201}; };
    enqueue(1);
    ASSERT_TRUE(lane().run_until([&] { return all_ended(); }, 1h));
    ASSERT_EQ(broker.sends.size(), 3U);
    ASSERT_EQ(recorder.settled.size(), 3U);
    expect_wait(0, 2);
    expect_wait(1, 4);
    EXPECT_EQ(recorder.settled[0].code, "BROKER_5XX");
    EXPECT_EQ(recorder.settled[2].kind, store::SettleKind::sent);
    EXPECT_TRUE(recorder.settled[2].answer);
    EXPECT_EQ(fake.rows().at(1).status, "sent");
    EXPECT_EQ(fake.rows().at(1).failures, 2);
}

TEST_F(OrdersLane, ABadRequestIsDeadAtOnce) {
    broker.answer = [](std::size_t) { return BrokerSays{.status = 400}; };
    enqueue(1);
    ASSERT_TRUE(lane().run_until([&] { return all_ended(); }, 1h));
    lane().run_for(1h);
    EXPECT_EQ(broker.sends.size(), 1U);
    EXPECT_EQ(fake.rows().at(1).status, "dead");
    ASSERT_EQ(recorder.settled.size(), 1U);
    EXPECT_EQ(recorder.settled[0].code, "BAD_REQUEST");
}

TEST_F(OrdersLane, TheNinthFailureIsTheLast) {
    broker.answer = [](std::size_t) { return BrokerSays{.status = 500}; };
    enqueue(1);
    ASSERT_TRUE(lane().run_until([&] { return all_ended(); }, 1h));
    lane().run_for(1h);
    ASSERT_EQ(broker.sends.size(), 9U);
    for (std::size_t n = 0; n < 8; ++n) expect_wait(n, 2.0 * static_cast<double>(1U << n));
    ASSERT_EQ(recorder.settled.size(), 9U);
    EXPECT_EQ(recorder.settled[8].kind, store::SettleKind::dead);
    EXPECT_EQ(fake.rows().at(1).status, "dead");
}

TEST_F(OrdersLane, RetryAfterPausesTheWholeLaneWhichThenSendsSlower) {
    broker.answer = [](std::size_t n) { return n == 16 ? BrokerSays{429, "3"} : BrokerSays{}; };
    enqueue(400);
    lane().run_for(2900ms);
    ASSERT_EQ(broker.sends.size(), 16U);  // all in the first instant, four at a time
    EXPECT_EQ(broker.sends.back().at, 0s);
    const std::size_t claimed = fake.claims.size();
    EXPECT_LT(claimed, 400U);
    EXPECT_EQ(fake.rows().at(16).failures, 1);

    ASSERT_TRUE(lane().run_until([&] { return all_ended(); }, 10min));
    EXPECT_EQ(broker.sent_between(1ns, 3s), 0U);
    EXPECT_EQ(broker.sends[16].at, 3s);
    EXPECT_EQ(recorder.rates.at(0), 8);  // half of 16 in the last second
    const std::size_t at_first = broker.sent_between(3s, 4s);
    EXPECT_GE(at_first, 8U);
    EXPECT_LE(at_first, 10U);
    EXPECT_GE(broker.sent_between(8s, 9s), at_first + 8);  // five seconds, two a second more each
    EXPECT_EQ(recorder.rates.back(), 0);                   // lifted
    EXPECT_EQ(broker.sends.size(), 401U);
    for (const auto& [id, row] : fake.rows()) EXPECT_EQ(row.status, "sent") << id;
}

TEST_F(OrdersLane, NothingIsClaimedDuringAPause) {
    broker.answer = [](std::size_t) { return BrokerSays{429, "100"}; };
    enqueue(1);
    lane().run_for(50s);
    enqueue(50);  // and what comes during it
    const int looks = recorder.looks_with_rows + recorder.looks_without;
    lane().run_for(49s);
    EXPECT_EQ(recorder.looks_with_rows + recorder.looks_without, looks);
    EXPECT_EQ(broker.sends.size(), 1U);
    lane().run_for(2s);
    EXPECT_GT(broker.sends.size(), 1U);
}

TEST_F(OrdersLane, RetryAfterMayBeADate) {
    broker.answer = [](std::size_t n) {
        return n == 1 ? BrokerSays{429, "Thu, 01 Jan 1970 00:00:30 GMT"} : BrokerSays{};
    };
    enqueue(4);
    ASSERT_TRUE(lane().run_until([&] { return all_ended(); }, 10min));
    EXPECT_EQ(broker.sent_between(0s, 1ns), 4U);
    EXPECT_EQ(broker.sent_between(1ns, 30s), 0U);
    EXPECT_EQ(broker.sends.size(), 5U);
}

TEST_F(OrdersLane, WithoutTheThrottleOnlyTheRowWaits) {
    options.throttle = false;
    broker.answer = [](std::size_t n) { return n == 1 ? BrokerSays{429, "30"} : BrokerSays{}; };
    enqueue(40);
    lane().run_for(1s);
    EXPECT_EQ(broker.sends.size(), 40U);
    EXPECT_TRUE(recorder.rates.empty());
}

TEST_F(OrdersLane, RowsAreKeptDuringAPause) {
    options.lease = 30s;
    broker.answer = [](std::size_t n) { return n == 4 ? BrokerSays{429, "300"} : BrokerSays{}; };
    enqueue(20);
    lane().run_for(299s);
    EXPECT_EQ(broker.sends.size(), 4U);
    EXPECT_EQ(fake.holders().size(), 16U);  // ten leases later
    ASSERT_TRUE(lane().run_until([&] { return all_ended(); }, 10min));
    EXPECT_TRUE(fake.rescued.empty());
    EXPECT_EQ(lane().totals().conflicts, 0U);
    EXPECT_EQ(broker.sends.size(), 21U);
}

TEST_F(OrdersLane, RowsOfADeadWorkerAreRescuedAtTheStart) {
    enqueue(1);
    ASSERT_EQ(fake.claim({"gone", 10, options.lease, std::nullopt})->rows.size(), 1U);
    fake.rows().at(1).locked_at -= options.lease + 1s;
    lane().run_for(1s);
    EXPECT_EQ(broker.sends.size(), 1U);
    EXPECT_EQ(fake.rows().at(1).status, "sent");
    EXPECT_THAT(log.lines, Contains(HasSubstr("warn: freed rows that were stuck")));
}

TEST_F(OrdersLane, RescuesEachHalfMinuteAndNoRowTooEarly) {
    enqueue(1);
    ASSERT_EQ(fake.claim({"gone", 10, options.lease, std::nullopt})->rows.size(), 1U);
    lane().run_for(options.lease);
    EXPECT_TRUE(broker.sends.empty());
    EXPECT_EQ(fake.rescue_calls, 1 + 20);
    lane().run_for(30s + options.idle_poll);
    EXPECT_EQ(broker.sends.size(), 1U);
}

TEST_F(OrdersLane, ALaneThatDoesNotRescueNeverDoes) {
    options.rescue_interval = 0s;
    lane().run_for(1h);
    EXPECT_EQ(fake.rescue_calls, 0);
}

TEST_F(OrdersLane, AFailedRescueIsCountedAndTriedAgain) {
    outbox.down = true;
    lane().run_for(0s);
    EXPECT_EQ(lane().totals().database_errors, 2U);  // the claim's and the rescue's
    outbox.down = false;
    lane().run_for(31s);
    EXPECT_EQ(fake.rescue_calls, 1);
}

TEST_F(OrdersLane, ALongSendIsRenewedAndNotRescued) {
    broker.quiet = true;
    enqueue(1);
    lane().run_for(1h);
    EXPECT_TRUE(fake.rescued.empty());
    EXPECT_EQ(fake.holders(), std::vector<std::string>{"w1"});
    EXPECT_EQ(broker.sends.size(), 1U);
}

TEST_F(OrdersLane, WhileRenewalsFailItsOwnRowsAreNotRescued) {
    broker.quiet = true;
    enqueue(1);
    lane().run_for(1min);
    outbox.renew_fails = true;
    lane().run_for(2 * options.lease);
    outbox.renew_fails = false;
    lane().run_for(1min);
    EXPECT_TRUE(fake.rescued.empty());
    EXPECT_EQ(fake.holders(), std::vector<std::string>{"w1"});
}

TEST_F(OrdersLane, ARetryThatIsClaimedBeforeItsSettleIsAnsweredIsSent) {
    broker.answer = [](std::size_t n) { return BrokerSays{.status = n == 1 ? 503 : 201}; };
    enqueue(1);
    outbox.settle_answers_lost = true;
    ASSERT_TRUE(lane().run_until([&] { return fake.rows().at(1).failures == 1; }, 1s));
    outbox.settle_fails = true;
    ASSERT_TRUE(lane().run_until([&] { return fake.claims.size() == 2; }, 10s));
    EXPECT_EQ(broker.sends.size(), 1U);
    outbox.settle_answers_lost = false;
    outbox.settle_fails = false;
    EXPECT_TRUE(lane().run_until([&] { return all_ended(); }, 10s));  // a lease has ten minutes
    EXPECT_EQ(broker.sends.size(), 2U);
    EXPECT_EQ(fake.rows().at(1).failures, 1);
    EXPECT_EQ(lane().totals().conflicts, 0U);
}

TEST_F(OrdersLane, ARowClaimedAgainBeforeItWasSentIsSentInItsNewState) {
    broker.answer = [](std::size_t n) { return n == 1 ? BrokerSays{429, "100"} : BrokerSays{}; };
    options.parallelism = 1;
    enqueue(2);
    lane().run_for(50s);
    ASSERT_EQ(broker.sends.size(), 1U);
    ASSERT_EQ(fake.rows().at(2).locked_by, "w1");
    // Another worker takes it, fails, and it is due again when the pause ends.
    fake.rows().at(2).locked_by.reset();
    fake.rows().at(2).failures = 1;
    EXPECT_TRUE(lane().run_until([&] { return all_ended(); }, 2min));
    EXPECT_EQ(broker.sends.size(), 3U);
    EXPECT_EQ(lane().totals().conflicts, 0U);
}

TEST_F(OrdersLane, ALostRowClaimedAgainBeforeTheLossIsNotedIsSent) {
    broker.answer = [](std::size_t n) { return n == 1 ? BrokerSays{429, "100"} : BrokerSays{}; };
    options.parallelism = 1;
    options.lease = 2min;
    enqueue(3);
    lane().run_for(30s);
    fake.rows().at(2).locked_by = "w2";
    outbox.settle_fails = true;  // of the third, and so the loss of the second waits with it
    ASSERT_TRUE(lane().run_until([&] { return broker.sends.size() == 2; }, 2min));
    ASSERT_EQ(broker.sends[1].id, 3);
    fake.rows().at(2).locked_by.reset();
    ASSERT_TRUE(lane().run_until([&] { return fake.rows().at(2).locked_by == "w1"; }, 10s));
    outbox.settle_fails = false;
    EXPECT_TRUE(lane().run_until([&] { return all_ended(); }, 20s));
    EXPECT_EQ(lane().totals().conflicts, 1U);
    EXPECT_EQ(std::ranges::count(broker.sends, 2, &Broker::Send::id), 1);
}

TEST_F(OrdersLane, AnIdleLaneReportsEmptyQueues) {
    enqueue(20);
    lane().run_for(1s);
    ASSERT_TRUE(all_ended());
    EXPECT_GT(recorder.deepest["claimed"], 0U);
    EXPECT_GT(recorder.deepest["settling"], 0U);
    EXPECT_EQ(recorder.depths["claimed"], 0U);
    EXPECT_EQ(recorder.depths["settling"], 0U);
}

TEST_F(OrdersLane, EachLookAtTheTableIsReported) {
    lane().run_for(10s);
    EXPECT_EQ(recorder.looks_with_rows, 0);
    EXPECT_GE(recorder.looks_without, 50);
    enqueue(1);
    lane().run_for(1s);
    EXPECT_EQ(recorder.looks_with_rows, 1);
}

}  // namespace
}  // namespace deliverd::lane
