// For the lane's tests: the stages of one lane without threads, on a clock that moves only when none of them has
// anything to do. Minutes take no time, and everything happens at the same instants each time.
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
    SteppedLane(LaneOptions options, store::RowQueue& outbox, sink::Sink& sink, ManualClock& clock, Observer& observer,
                Log& log)
        : clock_(clock),
          control_(clock),
          shared_(std::move(options), outbox, sink, clock, observer, log, control_),
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

    [[nodiscard]] LaneTotals totals() const { return shared_.reporter.totals(); }

private:
    /// The present instant while a stage makes progress; otherwise when to look again.
    Instant step() {
        const Instant steps[] = {renew_.step(), fetch_.step(), send_.step(), settle_.step()};
        return std::max(std::ranges::min(steps), clock_.now());
    }

    ManualClock& clock_;
    pipeline::Control control_;
    Shared shared_;
    FetchStage fetch_;
    SendStage send_;
    SettleStage settle_;
    RenewStage renew_;
};

}  // namespace deliverd::lane
