// librdkafka's log lines on their way into the log.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/log.h"

namespace deliverd::sink {

/// Limits the number of lines per time window and counts those left out. One thread at a time.
class LogGate {
public:
    static constexpr int kMaxLines = 5;
    static constexpr Duration kWindow = std::chrono::seconds(10);

    /// Every line has the field `field`=`name`. `log` outlives it.
    LogGate(Log& log, std::string field, std::string name)
        : log_(log), field_(std::move(field)), name_(std::move(name)) {}

    void write(LogLevel level, std::string_view facility, std::string_view text,
               std::string_view event = "librdkafka") {
        const auto now = clock_.now();
        if (written_ == 0 || now - window_begin_ >= kWindow) {
            if (left_out_ > 0) log_.warn("librdkafka said more", {{field_, name_}, {"lines_left_out", left_out_}});
            window_begin_ = now;
            written_ = 0;
            left_out_ = 0;
        }
        if (written_ == kMaxLines) {
            ++left_out_;
            return;
        }
        ++written_;
        log_.write(level, event, {{field_, name_}, {"facility", facility}, {"said", text}});
    }

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
