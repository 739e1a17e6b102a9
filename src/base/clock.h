// Time as a parameter. Code that waits or measures age takes a Clock, so that the simulator and tests set the time.
#pragma once

#include <chrono>

namespace deliverd {

/// A span of local time that never jumps, for leases, waits and deadlines.
using Duration = std::chrono::nanoseconds;
using Instant = std::chrono::time_point<std::chrono::steady_clock, Duration>;
/// Calendar time, for display and timestamps only. Never decides whether a lease has expired.
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;

class Clock {
public:
    virtual ~Clock() = default;
    /// Monotonic. Thread-safe.
    [[nodiscard]] virtual Instant now() const = 0;
    /// May jump either way. Thread-safe.
    [[nodiscard]] virtual WallTime wall_now() const = 0;
};

class SystemClock final : public Clock {
public:
    [[nodiscard]] Instant now() const override {
        return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
    }
    [[nodiscard]] WallTime wall_now() const override {
        return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
    }
};

[[nodiscard]] constexpr double to_seconds(Duration span) {
    return std::chrono::duration<double>(span).count();
}
[[nodiscard]] constexpr Duration from_seconds(double seconds) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace deliverd
