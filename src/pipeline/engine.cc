#include "pipeline/engine.h"

#include <algorithm>

#include "base/assert.h"

namespace deliverd::pipeline {

namespace {

constexpr Duration kLastSettleGrace = std::chrono::seconds(2);  // to record what came in as the patience ended

}  // namespace

/// Steps until `done`, and naps in between, though not beyond the end of a stop.
void Engine::run(Worker& worker, Instant (Engine::*step)(), const std::function<bool()>& done) {
    worker.thread = std::thread([this, &worker, step, done] {
        while (!(worker.exit && done())) {
            const Instant wake_at = (this->*step)();
            const Instant now = clock_.now();
            if (wake_at <= now) continue;
            // A nap must not outlast the end of a stop.
            const Instant end(last_instant_.load());
            worker.signal.wait_until(now >= end ? wake_at : std::min(wake_at, end));
        }
    });
}

/// A sender that begins its turn while the engine drains has nothing more for the sink when it ends.
Instant Engine::send_turn() {
    const bool draining = control_.draining.load();
    const Instant wake_at = send();
    if (draining) {
        sends_ended_ = true;
        control_.signals.stopping.poke();
    }
    return wake_at;
}

void Engine::finish(Worker& worker) {
    worker.exit = true;
    worker.signal.poke();
    if (worker.thread.joinable()) worker.thread.join();
}

void Engine::start_sending() {
    ASSERT(!send_.thread.joinable());  // started once
    run(send_, &Engine::send_turn, [this] { return out_of_time() || all_outcomes_read(); });
    run(settle_, &Engine::settle, [this] { return out_of_time() || all_settled(); });
    run(keep_, &Engine::keep, [] { return true; });
}

void Engine::start() {
    start_sending();
    // Settling and renewing run before the first row is held.
    begin_taking();
    run(take_, &Engine::take, [] { return true; });
}

void Engine::bring_end_forward(Instant end) {
    Duration known = last_instant_.load();
    // Only ever earlier: stop() and hurry() may both be setting it.
    while (end.time_since_epoch() < known && !last_instant_.compare_exchange_weak(known, end.time_since_epoch())) {
    }
}

void Engine::hurry() {
    hurried_ = true;
    // For a stop() that is already past the sink; one that still waits sets its own end when it gets there.
    bring_end_forward(clock_.now() + kHurriedGrace);
    for (Signal* signal : {&control_.signals.stopping, &send_.signal, &settle_.signal}) signal->poke();
}

/// Waits until the sender has seen that it must send nothing more (it never naps long), then until everything at the
/// sink has ended or the time is up.
void Engine::wait_for_sink(Instant deadline) {
    while (send_.thread.joinable() && !sends_ended_) {
        send_.signal.poke();
        control_.signals.stopping.wait_until(clock_.now() + kStopCheck);
    }
    while (at_sink() > 0 && !hurried_ && clock_.now() < deadline) {
        control_.signals.stopping.wait_until(std::min(deadline, clock_.now() + kStopCheck));
    }
    cut_off();
    // Whatever is still there ends now, as stopped or ambiguous.
    sink_.stop(Duration::zero());
}

void Engine::stop(Duration patience) {
    // A second caller waits for the first: when stop() returns, the threads have ended.
    const MutexLock lock(stop_mutex_);
    if (stopped_) return;
    stopped_ = true;
    const Instant deadline = clock_.now() + patience;
    drain();
    // From left to right, as messages flow: what an earlier thread hands on, a later one still takes.
    finish(take_);
    end_taking();
    wait_for_sink(deadline);
    const Instant now = clock_.now();
    last_instant_ = std::max(deadline, now + kLastSettleGrace).time_since_epoch();
    if (hurried_) bring_end_forward(now + kHurriedGrace);
    for (Worker* worker : {&send_, &settle_, &keep_}) finish(*worker);
    leave();
}

LaneTotals Engine::run_once(Duration patience) {
    prepare_once();
    start_sending();
    take_once();
    while (at_work() && !hurried_) control_.signals.stopping.wait_until(clock_.now() + kStopCheck);
    stop(patience);
    return totals();
}

}  // namespace deliverd::pipeline
