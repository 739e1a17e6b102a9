// For tests of this sink: events, log lines as they come in, and the patience a broker needs.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "sink/sink.h"
#include "sink/testing/collector.h"

namespace deliverd::sink {

inline constexpr auto kBrokerPatience = std::chrono::seconds(60);  // a test that waits this long has failed

/// Keeps what was logged.
class TextLog final : public Log {
public:
    void write(LogLevel, std::string_view event, Fields fields) override {
        const std::lock_guard lock(mutex_);
        text_.append(event);
        for (const auto& field : fields) {
            if (const auto* value = std::get_if<std::string_view>(&field.value)) text_.append(" ").append(*value);
        }
        text_.append("\n");
        ++lines_;
    }
    std::string text() {
        const std::lock_guard lock(mutex_);
        return text_;
    }
    int lines() {
        const std::lock_guard lock(mutex_);
        return lines_;
    }

private:
    std::mutex mutex_;
    std::string text_;
    int lines_ = 0;
};

inline Message test_event(std::int64_t id, std::string topic, std::string body = "{}") {
    Message message;
    message.id = id;
    message.message_id = "018f4d1e-7a00-7000-8000-" + std::to_string(100'000'000'000 + id);
    message.key = "order-" + std::to_string(id);
    message.type = "OrderCreated";
    message.topic = std::move(topic);
    message.body = std::move(body);
    message.content_type = "application/json";
    message.created_at = "2026-02-20T10:30:00.123Z";
    return message;
}

inline Outcome send_to_broker(Sink& sink, const Message& message) {
    return send_one(sink, message, kBrokerPatience);
}

/// Sends `message` again and again until its outcome's code is `code`.
inline Outcome send_until(Sink& sink, const Message& message, std::string_view code) {
    const auto end = std::chrono::steady_clock::now() + kBrokerPatience;
    while (true) {
        auto outcome = send_to_broker(sink, message);
        if (outcome.code == code || std::chrono::steady_clock::now() > end) return outcome;
    }
}

inline std::vector<const Message*> pointers(const std::vector<Message>& messages) {
    std::vector<const Message*> out;
    out.reserve(messages.size());
    for (const auto& message : messages) out.push_back(&message);
    return out;
}

}  // namespace deliverd::sink
