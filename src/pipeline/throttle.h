// How fast a lane may send after its receiver asked for less (429): a pause, then a rate that is halved at each
// further complaint and grows again with successes. Pure code over instants: no clock, no threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace deliverd::pipeline {

/// Additive increase, multiplicative decrease:
///
///   - There is no limit until the first RATE_LIMITED. Then the limit is half of what was sent in the last second, and
///     each further complaint halves it, never below kFloorPerSecond. Attempts that began before a complaint belong to
///     the old rate: they neither lower nor raise the new one.
///   - Nothing is sent until the receiver's Retry-After has passed, or kPauseWithoutRetryAfter if there is none.
///   - A second of successes at the present rate adds a fixed step: kIncreaseShare of the rate at which the lane was
///     first limited, so that a fast lane is not slow for minutes, and at least kLeastIncreasePerSecond. At
///     kLiftFactor times that rate, and no less than kLeastLiftPerSecond, the limit is lifted.
///   - What was not sent in time is not caught up: sends are at least 1/rate apart, also after a pause.
///
/// Each process has a throttle of its own: a shared rate would need the database on the way of every send. Every
/// process gets complaints of its own and finds its own rate; their sum is what the receiver can take.
///
/// Instants never go back. One thread at a time.
class Throttle {
public:
    static constexpr double kFloorPerSecond = 1;
    static constexpr double kIncreaseShare = 0.05;
    static constexpr double kLeastIncreasePerSecond = 2;
    static constexpr double kLiftFactor = 2;
    static constexpr double kLeastLiftPerSecond = 20;
    static constexpr Duration kPauseWithoutRetryAfter = std::chrono::seconds(1);

    /// Caps each Retry-After at `longest_pause`.
    explicit Throttle(Duration longest_pause) : longest_pause_(longest_pause) {}

    /// How many of `wanted` may go now.
    [[nodiscard]] std::size_t permits(Instant now, std::size_t wanted) const;
    /// When the next one may; `now` when it already may.
    [[nodiscard]] Instant next_permit(Instant now) const;
    /// Nothing goes before this; in the past when there is no pause.
    [[nodiscard]] Instant paused_until() const { return paused_until_; }
    /// The limit per second; none while there is none.
    [[nodiscard]] std::optional<double> rate() const { return rate_; }

    /// `messages` went out, no more than permits() said.
    void on_sent(Instant now, std::size_t messages);
    /// An attempt that began at `began` was answered by RATE_LIMITED.
    void on_rate_limited(Instant began, Instant now, std::optional<Duration> retry_after);
    /// An attempt that began at `began` was delivered.
    void on_success(Instant began);

private:
    static constexpr Duration kSlot = std::chrono::milliseconds(100);
    static constexpr std::size_t kSlots = 10;  // a second

    struct Slot {
        std::int64_t number = -1;
        std::size_t sent = 0;
    };

    [[nodiscard]] double sent_in_the_last_second(Instant now) const;

    Duration longest_pause_;
    std::optional<double> rate_;
    double increase_ = 0;      // per second; while there is a limit
    double lift_at_ = 0;       // while there is a limit
    Instant last_decrease_{};  // while there is a limit
    Instant paused_until_{};
    Instant next_send_{};
    std::array<Slot, kSlots> slots_{};  // sends of the last second, by tenths
};

}  // namespace deliverd::pipeline
