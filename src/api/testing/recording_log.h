// For tests: a log that can be read.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <variant>

#include "base/log.h"

namespace deliverd::api {

/// Remembers every event and its text fields. Thread-safe.
class RecordingLog final : public Log {
public:
    void write(LogLevel, std::string_view event, Fields fields) override {
        const std::lock_guard lock(mutex_);
        text_ += event;
        for (const auto& field : fields) {
            if (const auto* value = std::get_if<std::string_view>(&field.value)) (text_ += ' ') += *value;
        }
    }
    std::string text() {
        const std::lock_guard lock(mutex_);
        return text_;
    }

private:
    std::mutex mutex_;
    std::string text_;
};

}  // namespace deliverd::api
