// Time as a parameter. Code that waits or ages things takes a Clock, so that the simulator and the
// tests decide what time it is.
#pragma once

#include <chrono>

namespace deliverd {

/// A span of local, never-jumping time. Leases, waits and deadlines are measured with it.
using Duration = std::chrono::nanoseconds;
using Instant = std::chrono::time_point<std::chrono::steady_clock, Duration>;
/// Calendar time. Only for showing and stamping, never for deciding whether a lease has run out.
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
