// The demo's sample traffic: memories enqueued, orders posted, events written, dead letters retried, each at a steady
// rate on a thread of its own.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "deadletter/manager.h"
#include "deliverd/result.h"
#include "sink/sink.h"
#include "store/database.h"

namespace deliverd::demo {

/// Calls `work` with how many are due, about as often as `rate` (a second) asks for, until stopped. What has become due
/// meanwhile is handed over together, at most `most_together`.
class SteadyThread {
public:
    using Work = std::function<void(std::int64_t due)>;
    SteadyThread(double rate, std::int64_t most_together, Work work);
    ~SteadyThread() { stop(); }
    SteadyThread(const SteadyThread&) = delete;
    SteadyThread& operator=(const SteadyThread&) = delete;

    /// Waits for the work under way. Idempotent.
    void stop();

private:
    void run();

    const Duration interval_;
    const std::int64_t most_together_;
    const Work work_;
    Mutex mutex_;
    Condition wake_;
    bool ending_ GUARDED_BY(mutex_) = false;
    std::thread thread_;
};

class MemoryTraffic {
public:
    /// `database` outlives it.
    MemoryTraffic(store::Database& database, double rate);
    void stop() { thread_.stop(); }
    [[nodiscard]] std::int64_t enqueued() const { return enqueued_; }

private:
    void enqueue(std::int64_t due);

    store::Database& database_;
    std::int64_t last_number_ = 0;
    std::atomic<std::int64_t> enqueued_ = 0;
    SteadyThread thread_;  // last: it uses the rest
};

/// What happens to an order, in this order.
inline constexpr std::array<std::string_view, 3> kEventSteps{"OrderCreated", "OrderPaid", "OrderShipped"};

/// Events as a shop writes them: every order is created, paid a little later and shipped later still.
class EventTraffic {
public:
    /// `database` outlives it.
    EventTraffic(store::Database& database, double rate);
    void stop() { thread_.stop(); }
    [[nodiscard]] std::int64_t written() const { return written_; }

private:
    void write(std::int64_t due);

    store::Database& database_;
    std::int64_t last_number_ = 0;
    std::atomic<std::int64_t> written_ = 0;
    SteadyThread thread_;  // last: it uses the rest
};

/// The person who looks at the dead letters now and then, and retries every second one that can be.
class LetterTraffic {
public:
    /// `database` and `log` outlive it.
    LetterTraffic(store::Database& database, Log& log);
    void stop() { thread_.stop(); }
    [[nodiscard]] std::int64_t sent_back() const { return sent_back_; }

private:
    void retry_some();

    const std::unique_ptr<store::DeadLetters> letters_;
    deadletter::Manager manager_;
    std::atomic<std::int64_t> sent_back_ = 0;
    SteadyThread thread_;  // last: it uses the rest
};

/// Orders over the real API. An answer that did not come is no answer: such an order is posted again with its own key,
/// which stores it once. Now and then an old order is posted again on purpose.
class OrderTraffic final : private sink::OutcomeReceiver {
public:
    /// `address`: "http://127.0.0.1:8080". `log` outlives it.
    static Result<std::unique_ptr<OrderTraffic>> start(const std::string& address, double rate, Log& log);
    ~OrderTraffic() override { stop(); }
    OrderTraffic(const OrderTraffic&) = delete;
    OrderTraffic& operator=(const OrderTraffic&) = delete;

    /// Posts nothing new any more, and the unanswered ones again until they are answered, a few times at most.
    void stop();
    [[nodiscard]] std::int64_t repeated() const { return repeated_; }  // posts of an order that was accepted before

private:
    struct Post {
        Message message;
        bool again = false;  // on purpose: an order that was posted before
    };

    OrderTraffic(std::unique_ptr<sink::Sink> sink, double rate);
    void on_outcome(const Message& message, Outcome outcome) override;
    void post(std::int64_t due);
    /// Sends them and waits for all answers; what was not accepted is in unanswered_ afterwards.
    void post_all(std::vector<Post> posts);
    Post next_post();

    std::unique_ptr<sink::Sink> sink_;
    std::int64_t posts_ = 0;
    std::int64_t last_number_ = 0;
    std::vector<Post> unanswered_;
    std::atomic<std::int64_t> repeated_ = 0;

    Mutex mutex_;
    Condition answered_;
    std::unordered_map<std::int64_t, bool> answers_ GUARDED_BY(mutex_);  // by Message::id: accepted?
    std::unique_ptr<SteadyThread> thread_;
};

}  // namespace deliverd::demo
