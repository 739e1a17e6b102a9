// A PollPlanner, driven by hand.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "relay/poll_planner.h"

namespace deliverd::relay {

class PollPlannerTest : public ::testing::Test {
protected:
    static constexpr Duration kBusy = std::chrono::milliseconds(2);
    static constexpr Duration kIdle = std::chrono::seconds(1);
    static constexpr Duration kMillisecond = std::chrono::milliseconds(1);

    /// A poll at `now_` that takes `cost_` and ends behind row `last` (0: it found none).
    PollPlanner::Poll poll(std::int64_t last, bool full = false, double age_seconds = 0.01, bool anything_new = true) {
        const PollPlanner::Poll poll = planner_.plan(now_);
        PollPlanner::PollResult found;
        found.began = now_;
        now_ += poll.sweep ? sweep_cost_ : cost_;
        found.ended = now_;
        if (last > 0) found.last = Position{last, std::to_string(last)};
        found.full = full;
        found.youngest_seconds = age_seconds;
        found.anything_new = anything_new && last > 0;
        end_above_ = poll.end_above;
        const auto writers = open_ ? std::optional(store::OpenWriters{*open_, 100}) : std::nullopt;
        if (writers) planner_.saw_writers(*writers, found.began);
        believed_ = planner_.believes(writers, found.last, end_, found.began, now_);
        found.asked = believed_;
        planner_.polled(found);
        return poll;
    }
    /// Near the end, at row 10; for minutes no sweep is due, and from now on polls take no time.
    void come_to_the_end() {
        poll(10);
        sweep_cost_ = std::chrono::seconds(10);
        EXPECT_TRUE(poll(10).sweep);
        cost_ = Duration::zero();
    }
    PollPlanner::Poll next_sweep(std::int64_t last, bool full = false, double age_seconds = 0.01) {
        PollPlanner::Poll next;
        while (!next.sweep) next = poll(last, full, age_seconds);
        return next;
    }
    void poll_for(Duration span, std::int64_t last) {
        for (const Instant end = now_ + span; now_ < end; now_ += PollPlanner::kMarkInterval) poll(last);
    }

    PollPlanner planner_{kBusy, kIdle};
    Instant now_ = Instant(std::chrono::hours(1));
    Duration cost_ = kMillisecond;
    Duration sweep_cost_ = std::chrono::milliseconds(50);  // dear: sweeps are rare
    std::optional<std::vector<std::uint64_t>> open_;       // transactions that a poll sees open
    std::optional<std::int64_t> end_;                      // of the table, that a poll tells
    std::optional<std::int64_t> end_above_;                // what the last poll asked
    bool believed_ = true;
};

}  // namespace deliverd::relay
