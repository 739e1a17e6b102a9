// librdkafka's lines on their way into the log.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/log.h"

namespace deliverd::sink {

/// At most so many lines a window, with a count of what was left out. Used by one thread at a time.
class LogGate {
public:
    /// Every line has the field `field`=`name`. `log` outlives it.
    LogGate(Log& log, std::string field, std::string name)
        : log_(log), field_(std::move(field)), name_(std::move(name)) {}
    void write(LogLevel level, std::string_view facility, std::string_view text, std::string_view event = "librdkafka");

private:
    Log& log_;
    const std::string field_;
    const std::string name_;
    const SystemClock clock_;
    Instant window_begin_{};
    int written_ = 0;
    std::int64_t left_out_ = 0;
};

}  // namespace deliverd::sink
