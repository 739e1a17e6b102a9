// A stop that comes while the send thread is about to send: held exactly there by its clock.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "lane/lane.h"
#include "lane/testing/fakes.h"

namespace deliverd::lane {
namespace {

using namespace std::chrono_literals;

/// Real time; keeps a chosen thread waiting inside now(), and counts the calls of another one.
class HoldingClock final : public Clock {
public:
    [[nodiscard]] Instant now() const override {
        std::unique_lock lock(mutex_);
        const auto caller = std::this_thread::get_id();
        if (caller == counted_) ++calls_;
        if (caller == held_) {
            is_held_ = true;
            changed_.wait(lock, [this, caller] { return caller != held_; });
        }
        return system_.now();
    }
    [[nodiscard]] WallTime wall_now() const override { return system_.wall_now(); }

    void hold(std::thread::id thread) {
        const std::lock_guard lock(mutex_);
        held_ = thread;
    }
    void let_go() {
        const std::lock_guard lock(mutex_);
        held_ = {};
        changed_.notify_all();
    }
    void count(std::thread::id thread) {
        const std::lock_guard lock(mutex_);
        counted_ = thread;
        calls_ = 0;
    }
    bool is_held() const {
        const std::lock_guard lock(mutex_);
        return is_held_;
    }
    int calls() const {
        const std::lock_guard lock(mutex_);
        return calls_;
    }

private:
    SystemClock system_;
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    mutable bool is_held_ = false;
    mutable int calls_ = 0;
    std::thread::id held_;
    std::thread::id counted_;
};

TEST(LaneStop, WaitsForASendThatWasAboutToBegin) {
    HoldingClock clock;
    SystemClock database_clock;
    FakeOutbox outbox([&] { return database_clock.now().time_since_epoch(); });
    ScriptedSink sink;
    std::atomic<std::thread::id> send_thread;
    sink.answer = [&](const Message&) {
        send_thread = std::this_thread::get_id();  // it answers on the thread that sends
        return Outcome{.kind = OutcomeKind::delivered};
    };
    SeededRandom random{1};
    Observer observer;
    NullLog log;
    LaneOptions options;
    options.worker_id = "w1";
    options.idle_poll = 10ms;
    Lane lane(options, outbox, sink, clock, random, observer, log);
    outbox.enqueue("");
    lane.start();
    ASSERT_TRUE(eventually([&] { return lane.totals().sent == 1; }));

    // At rest the send thread asks for the time only after it has looked whether it may still send.
    clock.count(send_thread);
    int seen = -1;
    ASSERT_TRUE(eventually([&] { return std::exchange(seen, clock.calls()) == clock.calls(); }));
    sink.hold = true;
    clock.hold(send_thread);
    ASSERT_TRUE(eventually([&] { return clock.is_held(); }));
    outbox.enqueue("");
    ASSERT_TRUE(eventually([&] { return lane.totals().claimed == 2; }));

    std::atomic<bool> stopped{false};
    std::thread stopper([&] {
        clock.count(std::this_thread::get_id());
        lane.stop(1h);
        stopped = true;
    });
    // The stop has gone as far as it can: it waits and looks at the time again and again, or has already stopped the
    // sink under a message that is still to come.
    EXPECT_TRUE(eventually([&] { return clock.calls() >= 4 || sink.stopped; }));
    clock.let_go();
    EXPECT_TRUE(eventually([&] { return sink.held() == 1 || stopped; }));
    sink.release({.kind = OutcomeKind::delivered});
    stopper.join();

    EXPECT_EQ(sink.sent_after_stop, 0);
    const LaneTotals totals = lane.totals();
    EXPECT_EQ(totals.sent, 2U);
    EXPECT_EQ(totals.abandoned, 0U);
    EXPECT_EQ(totals.released, 0U);
}

}  // namespace
}  // namespace deliverd::lane
