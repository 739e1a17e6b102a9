// For tests: a clock that stands still until it is told to go on.
#pragma once

#include "base/clock.h"

namespace deliverd::api {

class HandClock final : public Clock {
public:
    [[nodiscard]] Instant now() const override { return now_; }
    [[nodiscard]] WallTime wall_now() const override { return wall_; }
    void advance(Duration span) {
        now_ += span;
        wall_ += std::chrono::duration_cast<WallTime::duration>(span);
    }

private:
    Instant now_{std::chrono::hours(1)};
    WallTime wall_{};
};

}  // namespace deliverd::api
