// Keeps a flood of equal events from flooding the log: so many lines a second, and how many were left out.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/clock.h"

namespace deliverd::lane {

/// One thread at a time.
class LogLimiter {
public:
    static constexpr std::uint32_t kLinesASecond = 10;

    /// How many were left out since the last line; none when this one is to be left out as well.
    std::optional<std::uint64_t> admit(Instant now) {
        if (now - window_ >= std::chrono::seconds(1)) {
            window_ = now;
            lines_ = 0;
        }
        if (lines_ >= kLinesASecond) {
            ++left_out_;
            return std::nullopt;
        }
        ++lines_;
        return std::exchange(left_out_, 0);
    }

private:
    Instant window_{};
    std::uint32_t lines_ = 0;
    std::uint64_t left_out_ = 0;
};

}  // namespace deliverd::lane
