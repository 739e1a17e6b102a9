// Limits how often the same thing is logged. Each line says how many were left out before it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"

namespace deliverd::pipeline {

/// Admits `lines` lines per `window`. Thread-safe; waits for nothing but its own short lock.
class LogLimiter {
public:
    LogLimiter(std::uint32_t lines, Duration window) : lines_(lines), window_(window) {}

    /// How many lines were left out since the last one; none when this one must be left out as well. `what` identifies
    /// the trouble: a line about another one is always admitted.
    std::optional<std::uint64_t> admit(Instant now, std::string_view what = {}) {
        const MutexLock lock(mutex_);
        if (!began_ || what != what_ || now - *began_ >= window_) {
            began_ = now;
            what_ = what;
            admitted_ = 0;
        }
        if (admitted_ >= lines_) {
            ++left_out_;
            return std::nullopt;
        }
        ++admitted_;
        return std::exchange(left_out_, 0);
    }

private:
    const std::uint32_t lines_;
    const Duration window_;
    Mutex mutex_;
    std::optional<Instant> began_ GUARDED_BY(mutex_);  // of the present window
    std::string what_ GUARDED_BY(mutex_);
    std::uint32_t admitted_ GUARDED_BY(mutex_) = 0;
    std::uint64_t left_out_ GUARDED_BY(mutex_) = 0;
};

}  // namespace deliverd::pipeline
