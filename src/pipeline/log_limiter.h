// Limits how often the same thing is logged. Each line says how many were left out before it.
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

    /// How many lines were left out since the last one; none when this one must be left out as well.
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

/// For trouble that lasts: a line when it begins or changes, then one per minute. One thread at a time.
class RepeatLimiter {
public:
    static constexpr Duration kInterval = std::chrono::minutes(1);

    /// `what` identifies the trouble. Answers as LogLimiter::admit().
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
