// How long to wait before something is tried again, and how much of it fits into memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/random.h"

namespace deliverd::pipeline {

/// Before the next poll, after one that failed.
inline constexpr Duration kFirstPollRetry = std::chrono::milliseconds(50);
inline constexpr Duration kLongestPollRetry = std::chrono::seconds(5);

/// Between reads while the database gives rows but refuses settles: each row read then is a row sent in vain. One now
/// and then finds out whether that is over.
inline constexpr Duration kReadIntervalWhileRefused = std::chrono::seconds(5);

/// The wait after `failures` in a row: `first`, doubled with each one up to `longest`; up to a quarter less, at random,
/// so that workers that failed together do not come back together.
[[nodiscard]] inline Duration backoff(std::int32_t failures, Duration first, Duration longest, Random& random) {
    const Duration most = std::min(first * (1 << std::clamp(failures - 1, 0, 10)), longest);
    return from_seconds(to_seconds(most) * random.between(0.75, 1.0));
}

/// How many rows may be read until those in memory have `most` bytes. The size of a row is known only from those read
/// before it.
class ByteBudget {
public:
    explicit ByteBudget(std::size_t most) : most_(most) {}

    /// Large rows count at once and are forgotten slowly.
    void on_row(std::size_t bytes) { typical_ = std::max(bytes, typical_ - typical_ / 64); }
    [[nodiscard]] std::size_t left(std::size_t held) const { return most_ - std::min(held, most_); }
    /// Rows of the usual size that fit beside `held` bytes, one at least.
    [[nodiscard]] std::size_t rows(std::size_t held) const {
        return std::max<std::size_t>(left(held) / std::max<std::size_t>(typical_, 1), 1);
    }
    /// Rows to be read now beside `held_rows` rows with `held` bytes; 0 when nothing more fits. With no rows held, a
    /// row may be as large as it is: its size is unknown.
    [[nodiscard]] std::size_t room(std::size_t held_rows, std::size_t held) const {
        return held_rows > 0 && held + typical_ > most_ ? 0 : rows(held);
    }

private:
    const std::size_t most_;
    std::size_t typical_ = 0;  // of a row, rather too large than too small
};

}  // namespace deliverd::pipeline
