// For tests: messages, their outcomes as they come in, and waiting for them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "sink/sink.h"

namespace deliverd::sink {

inline constexpr auto kTestPatience = std::chrono::seconds(20);  // a test that waits this long has failed

class Collector final : public OutcomeReceiver {
public:
    void on_outcome(const Message& message, Outcome outcome) override {
        const std::lock_guard lock(mutex_);
        by_id_[message.id].push_back(std::move(outcome));
        ++count_;
        changed_.notify_all();
    }

    bool wait_for(std::size_t count, Duration patience = kTestPatience) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, patience, [&] { return count_ >= count; });
    }

    [[nodiscard]] std::size_t count() {
        const std::lock_guard lock(mutex_);
        return count_;
    }

    /// All outcomes a message got: one, if all is well.
    [[nodiscard]] std::vector<Outcome> of(std::int64_t id) {
        const std::lock_guard lock(mutex_);
        return by_id_[id];
    }

    /// Takes what came in so far.
    [[nodiscard]] std::map<std::int64_t, std::vector<Outcome>> take() {
        const std::lock_guard lock(mutex_);
        return std::exchange(by_id_, {});
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::int64_t, std::vector<Outcome>> by_id_;
    std::size_t count_ = 0;
};

inline Message test_message(std::int64_t id, std::string body = "{}") {
    Message message;
    message.id = id;
    message.message_id = "memory-" + std::to_string(id);
    message.body = std::move(body);
    message.content_type = "application/json";
    return message;
}

/// Of aggregate order-<id>.
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

inline std::vector<const Message*> pointers_to(const std::vector<Message>& messages) {
    std::vector<const Message*> out;
    out.reserve(messages.size());
    for (const auto& message : messages) out.push_back(&message);
    return out;
}

/// Sends one message and waits for what becomes of it.
inline Outcome send_one(Sink& sink, const Message& message, Duration patience = kTestPatience) {
    Collector collector;
    const Message* pointer = &message;
    sink.send({&pointer, 1}, collector);
    if (!collector.wait_for(1, patience)) {
        sink.stop(Duration::zero());
        return Outcome{OutcomeKind::retryable, "TEST: no outcome came", {}, {}, {}};
    }
    return collector.of(message.id).front();
}

}  // namespace deliverd::sink
