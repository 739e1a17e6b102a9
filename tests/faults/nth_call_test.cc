// The Nth call fails, for N = 1, 2, 3, … until a run makes fewer calls: on both real stores and both outboxes, before
// or after the call takes effect. The same for sends. Whatever fails, every row is delivered, its failures are counted
// correctly, and it is sent again only if the lane could not know that it had arrived.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>

#include "lane/lane.h"
#include "test_stores.h"

namespace deliverd {
namespace {

using namespace std::chrono_literals;
using store::conformance::must;
using store::conformance::StoreKind;
using store::conformance::TestStore;

constexpr int kRows = 12;
constexpr int kMostCalls = 60;  // a run makes far fewer; reaching this means it never ended

enum class Moment { before, after };

/// Forwards every call except the Nth, which fails.
class FailNthCall final : public store::RowQueue {
public:
    FailNthCall(store::RowQueue& inner, int nth, Moment moment) : inner_(inner), nth_(nth), moment_(moment) {}

    Result<store::ClaimBatch> claim(const store::ClaimRequest& request) override {
        return pass([&] { return inner_.claim(request); });
    }
    Result<std::vector<store::SettleAnswer>> settle(std::string_view worker,
                                                    std::span<const store::Settlement> settlements) override {
        return pass([&] { return inner_.settle(worker, settlements); });
    }
    Result<store::RenewAnswer> renew(std::string_view worker, std::span<const std::int64_t> ids) override {
        return pass([&] { return inner_.renew(worker, ids); });
    }
    Result<std::int64_t> release(std::string_view worker, std::span<const std::int64_t> ids) override {
        return pass([&] { return inner_.release(worker, ids); });
    }
    Result<void> audit(std::string_view worker, std::span<const store::AuditNote> notes) override {
        return pass([&] { return inner_.audit(worker, notes); });
    }
    Result<std::int64_t> rescue(std::string_view worker, Duration stuck_for) override {
        return pass([&] { return inner_.rescue(worker, stuck_for); });
    }
    Result<double> lag_seconds() override { return inner_.lag_seconds(); }
    Result<store::RowCounts> counts() override { return inner_.counts(); }
    Result<void> ping(Duration deadline) override { return inner_.ping(deadline); }

    [[nodiscard]] bool reached() const { return calls_ >= nth_; }

private:
    template <typename Call>
    auto pass(Call call) -> decltype(call()) {
        const bool fails = ++calls_ == nth_;
        if (fails && moment_ == Moment::before) return retryable("db_timeout", "the test says so");
        auto answer = call();
        if (fails) return ambiguous("db_error", "the test says so");
        return answer;
    }

    store::RowQueue& inner_;
    const int nth_;
    const Moment moment_;
    std::atomic<int> calls_{0};
};

/// Delivers every message at once except the Nth.
class FailNthSend final : public sink::Sink {
public:
    FailNthSend(int nth, Outcome outcome, bool taken) : nth_(nth), outcome_(std::move(outcome)), taken_(taken) {}

    void send(std::span<const Message* const> messages, sink::OutcomeReceiver& receiver) override {
        for (const Message* message : messages) {
            const bool fails = ++sends_ == nth_;
            if (fails) failed_ = message->id;
            if (!fails || taken_) {
                const std::lock_guard lock(mutex_);
                ++taken_by_id_[message->id];
            }
            const Outcome delivered{.kind = OutcomeKind::delivered, .receipt = "m-" + std::to_string(message->id)};
            receiver.on_outcome(*message, fails ? outcome_ : delivered);
        }
    }
    void stop(Duration) override {}
    Result<void> check(Duration) override { return {}; }

    [[nodiscard]] bool reached() const { return sends_ >= nth_; }
    [[nodiscard]] std::int64_t failed() const { return failed_; }
    [[nodiscard]] std::map<std::int64_t, int> taken() {
        const std::lock_guard lock(mutex_);
        return taken_by_id_;
    }

private:
    const int nth_;
    const Outcome outcome_;
    const bool taken_;
    std::atomic<int> sends_{0};
    std::atomic<std::int64_t> failed_{0};
    std::mutex mutex_;
    std::map<std::int64_t, int> taken_by_id_;
};

/// An outbox that a lane can use.
struct OutboxKind {
    std::string name;
    std::string table;
    std::unique_ptr<store::RowQueue> (*open)(store::Database& database);
    void (*fill)(store::Database& database);
    bool counts_the_last_failure;  // a dead row's retry_count includes its last failure
};

void enqueue_memories(store::Database& database) {
    auto lease = must(database.lease(std::nullopt));
    for (int i = 0; i < kRows; ++i) must(lease->enqueue_memory("space", "payload " + std::to_string(i), std::nullopt));
}

void accept_orders(store::Database& database) {
    std::vector<store::NewOrder> orders;
    for (int i = 0; i < kRows; ++i) {
        const std::string key = "order-" + std::to_string(i);
        orders.push_back({key, R"({"idempotency_key":")" + key + "\"}", "sha256:" + key, "trace", "test"});
    }
    must(database.orders({})->accept(orders));
}

const OutboxKind kMemories{"Memories", "outbox_memory", [](store::Database& d) { return d.memory_outbox("memory"); },
                           enqueue_memories, true};
const OutboxKind kOrders{"Orders", "outbox_orders", [](store::Database& d) { return d.orders_outbox({}, "orders"); },
                         accept_orders, false};

class NthCall : public ::testing::TestWithParam<std::tuple<StoreKind, OutboxKind>> {
protected:
    NthCall()
        : kind_(std::get<OutboxKind>(GetParam())),
          store_(std::get<StoreKind>(GetParam()).make()),
          outbox_(kind_.open(store_->database())) {}

    /// An empty table with kRows due rows.
    void fill() {
        store_->execute("delete from " + kind_.table);
        store_->execute("delete from outbox_audit");
        kind_.fill(store_->database());
    }

    /// Runs a lane until nothing is pending. Returns false if that does not happen in time.
    bool run_until_settled(store::RowQueue& outbox, sink::Sink& sink) {
        lane::LaneOptions options;
        options.name = "nth";
        options.worker_id = "worker-" + std::to_string(++runs_);
        options.batch_size = 5;
        options.parallelism = 3;
        options.lease = 400ms;
        options.rescue_interval = 100ms;
        options.idle_poll = 20ms;
        options.retry = RetryPolicy{.base_seconds = 0.01, .cap_seconds = 0.05, .dead_at_failures = 3};
        SystemClock clock;
        SeededRandom random(1);
        pipeline::Observer observer;
        NullLog log;
        lane::Lane lane(options, outbox, sink, clock, random, observer, log);
        lane.start();
        std::mutex mutex;
        std::condition_variable never;
        std::unique_lock lock(mutex);
        bool settled = false;
        const auto deadline = std::chrono::steady_clock::now() + 30s;
        while (!settled && std::chrono::steady_clock::now() < deadline) {
            never.wait_for(lock, 5ms);
            settled = must(outbox_->counts()).pending == 0;
        }
        lane.stop(5s);
        return settled;
    }

    std::string count(const std::string& where) {
        return store_->value("select count(*) from " + kind_.table + " where " + where);
    }

    const OutboxKind kind_;
    std::unique_ptr<TestStore> store_;
    std::unique_ptr<store::RowQueue> outbox_;
    int runs_ = 0;
};

TEST_P(NthCall, AFailedStoreCallNeitherLosesNorDoublesAnything) {
    for (const Moment moment : {Moment::before, Moment::after}) {
        bool reached = true;
        for (int nth = 1; reached; ++nth) {
            SCOPED_TRACE((moment == Moment::before ? "before call " : "after call ") + std::to_string(nth));
            ASSERT_LT(nth, kMostCalls);
            fill();
            FailNthCall outbox(*outbox_, nth, moment);
            FailNthSend sink(0, {}, false);
            ASSERT_TRUE(run_until_settled(outbox, sink));
            EXPECT_EQ(count("status = 'sent' and retry_count = 0"), std::to_string(kRows));
            EXPECT_EQ(store_->value("select count(*) from outbox_audit where reason = 'outbox_flush_success'"),
                      std::to_string(kRows));
            for (const auto& [id, times] : sink.taken()) EXPECT_EQ(times, 1) << "row " << id;
            EXPECT_EQ(sink.taken().size(), static_cast<std::size_t>(kRows));
            if (HasFailure()) return;
            reached = outbox.reached();
        }
    }
}

TEST_P(NthCall, AFailedSendIsRetriedAndCountedOnce) {
    struct Case {
        const char* name;
        OutcomeKind kind;
        bool taken;
    };
    for (const Case& c :
         {Case{"retryable", OutcomeKind::retryable, false}, Case{"ambiguous, not taken", OutcomeKind::ambiguous, false},
          Case{"ambiguous, taken", OutcomeKind::ambiguous, true}, Case{"permanent", OutcomeKind::permanent, false}}) {
        bool reached = true;
        for (int nth = 1; reached; ++nth) {
            SCOPED_TRACE(std::string(c.name) + ", send " + std::to_string(nth));
            fill();
            FailNthSend sink(nth, {.kind = c.kind, .code = "TEST"}, c.taken);
            ASSERT_TRUE(run_until_settled(*outbox_, sink));
            reached = sink.reached();
            const bool dead = reached && c.kind == OutcomeKind::permanent;
            EXPECT_EQ(count("status = 'sent'"), std::to_string(dead ? kRows - 1 : kRows));
            EXPECT_EQ(count("status = 'dead'"), dead ? "1" : "0");
            const bool counted = reached && (!dead || kind_.counts_the_last_failure);
            EXPECT_EQ(store_->value("select sum(retry_count) from " + kind_.table), counted ? "1" : "0");
            for (const auto& [id, times] : sink.taken()) {
                EXPECT_EQ(times, c.taken && id == sink.failed() ? 2 : 1) << "row " << id;
            }
            if (HasFailure()) return;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(BothStores, NthCall,
                         ::testing::Combine(::testing::ValuesIn(test_stores()), ::testing::Values(kMemories, kOrders)),
                         [](const auto& tested) {
                             return std::get<StoreKind>(tested.param).name + std::get<OutboxKind>(tested.param).name;
                         });

}  // namespace
}  // namespace deliverd
