#include "lane/lane.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "lane/stages.h"

namespace deliverd::lane {

namespace {

constexpr Duration kLastSettleGrace = std::chrono::seconds(2);  // for what came in as patience ended
constexpr Duration kStopCheck = std::chrono::milliseconds(50);

}  // namespace

struct Lane::Impl {
    Impl(LaneOptions options, store::Outbox& outbox, sink::Sink& sink, const Clock& clock, Random& random,
         Observer& observer, Log& log)
        : shared(std::move(options), outbox, sink, clock, observer, log),
          fetch(shared, random.next()),
          send(shared, random.next()),
          settle(shared, random.next()),
          renew(shared) {}

    /// Steps until `done` says so, napping whenever there is nothing to do, though not beyond the end of a stop.
    template <typename Stage>
    void loop(Stage& stage, Signal& signal, const std::function<bool()>& done) {
        while (!done()) {
            const Step step = stage.step();
            if (step.progressed) continue;
            signal.wait_until(out_of_time() ? step.wake_at : std::min(step.wake_at, Instant(last_instant.load())));
        }
    }

    void start_sending() {
        send_thread = std::thread([this] {
            loop(send, shared.send_signal, [this] { return send_exit && (send.drained() || out_of_time()); });
        });
        settle_thread = std::thread([this] {
            loop(settle, shared.settle_signal, [this] { return settle_exit && (settle.drained() || out_of_time()); });
        });
        renew_thread = std::thread([this] { loop(renew, shared.renew_signal, [this] { return renew_exit.load(); }); });
    }

    [[nodiscard]] bool out_of_time() const { return shared.clock.now() >= Instant(last_instant.load()); }

    void hurry() {
        hurried = true;
        bring_end_forward(shared.clock.now() + kHurriedGrace);
        for (Signal* signal : {&shared.fetch_signal, &shared.send_signal, &shared.settle_signal}) signal->poke();
    }

    void bring_end_forward(Instant end) {
        Duration known = last_instant.load();
        while (end.time_since_epoch() < known && !last_instant.compare_exchange_weak(known, end.time_since_epoch())) {
        }
    }

    static void finish(std::thread& thread, std::atomic<bool>& exit, Signal& signal) {
        exit = true;
        signal.poke();
        if (thread.joinable()) thread.join();
    }

    /// First until the send stage has seen that it is to send nothing more (it never waits long), then until
    /// everything at the sink has ended, or there is no more time.
    void wait_for_sink(Instant deadline) {
        while (send_thread.joinable() && !shared.sends_ended.load()) {
            shared.send_signal.poke();
            shared.fetch_signal.wait_until(shared.clock.now() + kStopCheck);
        }
        while (shared.at_sink.load() > 0 && !hurried && shared.clock.now() < deadline) {
            shared.fetch_signal.wait_until(std::min(deadline, shared.clock.now() + kStopCheck));
        }
        shared.cut_off = true;
        shared.sink.stop(Duration::zero());
    }

    void give_back_unsent() {
        const std::vector<std::int64_t> unsent = send.take_unsent();
        if (unsent.empty()) return;
        shared.book.remove(unsent);
        const Result<std::int64_t> released =
            shared.timed("release", [&] { return shared.outbox.release(shared.options.worker_id, unsent); });
        if (!released) shared.database_failed("release", released.error(), unsent.size());
        shared.tally.add(released ? &LaneTotals::released : &LaneTotals::abandoned, unsent.size());
    }

    void stop(Duration patience) {
        const std::lock_guard lock(stop_mutex);
        if (stopped) return;
        stopped = true;
        const Instant deadline = shared.clock.now() + patience;
        shared.draining = true;
        finish(fetch_thread, fetch_exit, shared.fetch_signal);
        wait_for_sink(deadline);
        const Instant now = shared.clock.now();
        last_instant = std::max(deadline, now + kLastSettleGrace).time_since_epoch();
        if (hurried) bring_end_forward(now + kHurriedGrace);
        finish(send_thread, send_exit, shared.send_signal);
        send.abandon();
        finish(settle_thread, settle_exit, shared.settle_signal);
        settle.abandon();
        finish(renew_thread, renew_exit, shared.renew_signal);
        give_back_unsent();
    }

    Shared shared;
    FetchStage fetch;
    SendStage send;
    SettleStage settle;
    RenewStage renew;

    std::thread fetch_thread;
    std::thread send_thread;
    std::thread settle_thread;
    std::thread renew_thread;
    std::atomic<bool> fetch_exit{false};
    std::atomic<bool> send_exit{false};
    std::atomic<bool> settle_exit{false};
    std::atomic<bool> renew_exit{false};
    std::atomic<bool> hurried{false};
    std::atomic<Duration> last_instant{Duration::max()};
    std::mutex stop_mutex;
    bool stopped = false;
};

Lane::Lane(LaneOptions options, store::Outbox& outbox, sink::Sink& sink, const Clock& clock, Random& random,
           Observer& observer, Log& log)
    : impl_(std::make_unique<Impl>(std::move(options), outbox, sink, clock, random, observer, log)) {}

Lane::~Lane() {
    impl_->stop(Duration::zero());
}

void Lane::start() {
    impl_->start_sending();
    impl_->fetch_thread = std::thread([impl = impl_.get()] {
        impl->loop(impl->fetch, impl->shared.fetch_signal, [impl] { return impl->fetch_exit.load(); });
    });
}

void Lane::drain() {
    impl_->shared.draining = true;
}

void Lane::stop(Duration patience) {
    impl_->stop(patience);
}

void Lane::hurry() {
    impl_->hurry();
}

LaneTotals Lane::run_once(Duration patience) {
    Shared& shared = impl_->shared;
    impl_->renew.step();  // so that rows someone left stuck are found by the claim
    impl_->start_sending();
    impl_->fetch.step();
    while (shared.book.size() > 0 && !shared.draining && !impl_->hurried && !shared.paused(shared.clock.now())) {
        shared.fetch_signal.wait_until(shared.clock.now() + kStopCheck);
    }
    impl_->stop(patience);
    return totals();
}

LaneTotals Lane::totals() const {
    return impl_->shared.tally.read();
}

}  // namespace deliverd::lane
