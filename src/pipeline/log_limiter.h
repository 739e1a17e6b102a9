// Keeps a flood of equal events from flooding the log, and what lasts from being told again and again; a line says how
// many were left out before it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"

namespace deliverd::pipeline {

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

/// For what is tried again and again while it lasts: a line when it begins or becomes something else, then one a
/// minute. One thread at a time.
class RepeatLimiter {
public:
    static constexpr Duration kInterval = std::chrono::minutes(1);

    /// `what` tells one trouble from another. Answers as LogLimiter::admit().
    std::optional<std::uint64_t> admit(Instant now, std::string_view what) {
        if (said_at_ && what == what_ && now - *said_at_ < kInterval) {
            ++left_out_;
            return std::nullopt;
        }
        said_at_ = now;
        what_ = what;
        return std::exchange(left_out_, 0);
    }

private:
    std::optional<Instant> said_at_;
    std::string what_;
    std::uint64_t left_out_ = 0;
};

}  // namespace deliverd::pipeline
