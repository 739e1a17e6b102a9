#include "sink/kafka/log_gate.h"

namespace deliverd::sink {

namespace {

constexpr int kMaxLogLines = 5;  // a window
constexpr Duration kLogWindow = std::chrono::seconds(10);

}  // namespace

void LogGate::write(LogLevel level, std::string_view facility, std::string_view text, std::string_view event) {
    const auto now = clock_.now();
    if (written_ == 0 || now - window_begin_ >= kLogWindow) {
        if (left_out_ > 0) log_.warn("librdkafka said more", {{field_, name_}, {"lines_left_out", left_out_}});
        window_begin_ = now;
        written_ = 0;
        left_out_ = 0;
    }
    if (written_ >= kMaxLogLines) {
        ++left_out_;
        return;
    }
    ++written_;
    log_.write(level, event, {{field_, name_}, {"facility", facility}, {"said", text}});
}

}  // namespace deliverd::sink
