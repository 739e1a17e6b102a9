// For tests: a log that can be read.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/log.h"

namespace deliverd {

/// Remembers every event and its text fields. Thread-safe.
class RecordingLog final : public Log {
public:
    void write(LogLevel, std::string_view event, Fields fields) override {
        const std::lock_guard lock(mutex_);
        events_.emplace_back(event);
        text_ += event;
        for (const auto& field : fields) {
            if (const auto* value = std::get_if<std::string_view>(&field.value)) (text_ += ' ') += *value;
        }
        text_ += '\n';
    }
    /// Each one's event, in order.
    std::vector<std::string> events() {
        const std::lock_guard lock(mutex_);
        return events_;
    }
    /// A line each: the event and the values of its text fields.
    std::string text() {
        const std::lock_guard lock(mutex_);
        return text_;
    }

private:
    std::mutex mutex_;
    std::vector<std::string> events_;
    std::string text_;
};

}  // namespace deliverd
