// For the lane's tests: the stages of one lane without threads, on a clock that moves only when none of them has
// anything to do. What takes minutes takes no time, and happens at the same instants each time.
#pragma once

#include <algorithm>
#include <utility>

#include "lane/stages.h"

namespace deliverd::lane {

/// Stands still until it is moved. One thread.
class ManualClock final : public Clock {
public:
    [[nodiscard]] Instant now() const override { return now_; }
    [[nodiscard]] WallTime wall_now() const override { return WallTime(elapsed_in_microseconds()); }
    [[nodiscard]] Duration elapsed() const { return now_ - kStart; }
    void move_to(Instant instant) { now_ = std::max(now_, instant); }

private:
    static constexpr Instant kStart = Instant(std::chrono::hours(1));
    [[nodiscard]] std::chrono::microseconds elapsed_in_microseconds() const {
        return std::chrono::duration_cast<std::chrono::microseconds>(elapsed());
    }
    Instant now_ = kStart;
};

class SteppedLane {
public:
    SteppedLane(LaneOptions options, store::Outbox& outbox, sink::Sink& sink, ManualClock& clock, Observer& observer,
                Log& log)
        : clock_(clock),
          shared_(std::move(options), outbox, sink, clock, observer, log, signals_),
          fetch_(shared_, 1),
          send_(shared_, 2),
          settle_(shared_, 3),
          renew_(shared_) {}

    /// Steps all stages, and moves time to the next moment one of them asked for whenever nothing is left to do,
    /// until `done` holds; false when `longest` has passed before that.
    template <typename Done>
    bool run_until(Done done, Duration longest) {
        const Instant end = clock_.now() + longest;
        while (!done()) {
            const Instant wake_at = step();
            clock_.move_to(std::min(wake_at, end));
            if (wake_at > end) return done();
        }
        return true;
    }
    void run_for(Duration span) {
        run_until([] { return false; }, span);
    }

    [[nodiscard]] LaneTotals totals() const { return shared_.tally.read(); }

private:
    /// The present instant while something goes on; else when to look again.
    Instant step() {
        const Step steps[] = {renew_.step(), fetch_.step(), send_.step(), settle_.step()};
        Instant wake_at = Instant::max();
        for (const Step& step : steps) wake_at = std::min(wake_at, step.progressed ? clock_.now() : step.wake_at);
        return wake_at;
    }

    ManualClock& clock_;
    pipeline::Signals signals_;
    Shared shared_;
    FetchStage fetch_;
    SendStage send_;
    SettleStage settle_;
    RenewStage renew_;
};

}  // namespace deliverd::lane
