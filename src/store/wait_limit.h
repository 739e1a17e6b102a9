// The moment that ends every wait of a store, for stopping: Database::limit_waits sets it, whatever waits looks at it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

#include "base/clock.h"

namespace deliverd::store {

/// A wait that nothing else wakes looks at the limit this often.
inline constexpr std::chrono::milliseconds kWaitSlice{100};

/// Thread-safe. Without a limit until one is set; the earliest one set counts, so that a hurried stop stays hurried.
class WaitLimit {
public:
    using Deadline = std::chrono::steady_clock::time_point;

    void set(Duration at_most) {
        constexpr Duration kLongest = std::chrono::hours(24 * 365);  // keeps the sum finite
        const Duration span = std::clamp(at_most, Duration::zero(), kLongest);
        const Deadline::rep end = (std::chrono::steady_clock::now() + span).time_since_epoch().count();
        Deadline::rep known = end_.load();
        while (end < known && !end_.compare_exchange_weak(known, end)) {
        }
    }

    /// The deadline, or the limit where that is earlier.
    [[nodiscard]] Deadline cap(Deadline deadline) const {
        return std::min(deadline, Deadline(Deadline::duration(end_.load())));
    }
    [[nodiscard]] bool passed() const { return cap(Deadline::max()) <= std::chrono::steady_clock::now(); }

private:
    std::atomic<Deadline::rep> end_ = Deadline::max().time_since_epoch().count();
};

}  // namespace deliverd::store
