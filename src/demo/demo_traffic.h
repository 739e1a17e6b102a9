// The demo's sample traffic.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "daemon/periodic.h"
#include "deadletter/manager.h"
#include "deliverd/result.h"
#include "sink/sink.h"
#include "store/database.h"

namespace deliverd::demo {

/// What happens to an order, in this order.
inline constexpr std::array<std::string_view, 3> kEventSteps{"OrderCreated", "OrderPaid", "OrderShipped"};

/// Each at a steady rate on a thread of its own:
///   memories   enqueued in the database; now and then one that is equal to an earlier one
///   orders     posted to the real API. An order without an answer is posted again with its own key, which stores it
///              once. Now and then an old order is posted again on purpose.
///   events     as a shop writes them: every order is created, paid a little later and shipped later still
///   a person   who looks at the dead letters now and then, and retries every second one that can be
class Traffic final : private sink::OutcomeReceiver {
public:
    /// `rate`: memories per second; `address`: of the API. `database` and `log` outlive it.
    static Result<std::unique_ptr<Traffic>> start(store::Database& database, const std::string& address, double rate,
                                                  Log& log);
    ~Traffic() override { stop(); }

    /// Makes nothing new, and posts unanswered orders again until they are answered, a few times at most.
    void stop();

    [[nodiscard]] std::int64_t memories() const { return memories_; }
    [[nodiscard]] std::int64_t events() const { return events_; }
    [[nodiscard]] std::int64_t posted_again() const { return posted_again_; }  // orders that were accepted before
    [[nodiscard]] std::int64_t sent_back() const { return sent_back_; }        // dead letters

private:
    struct Post {
        Message message;
        bool again = false;  // on purpose: an order that was posted before
    };

    Traffic(store::Database& database, std::unique_ptr<sink::Sink> sink, Log& log)
        : database_(database),
          letters_(database.dead_letters()),
          manager_({}, *letters_, nullptr, log),  // its letters go back into their lanes: no replayer is needed
          sink_(std::move(sink)) {}
    void enqueue_memories(std::int64_t due);
    void write_events(std::int64_t due);
    void retry_some_letters(std::int64_t due);
    void post_orders(std::int64_t due);
    /// Posts them and waits for all answers; what was not accepted is in unanswered_ afterwards.
    void post_all(std::vector<Post> posts);
    Post next_post();
    void on_outcome(const Message& message, Outcome outcome) override;

    store::Database& database_;
    const std::unique_ptr<store::DeadLetters> letters_;
    deadletter::Manager manager_;
    const std::unique_ptr<sink::Sink> sink_;
    std::atomic<std::int64_t> memories_ = 0;
    std::atomic<std::int64_t> events_ = 0;
    std::atomic<std::int64_t> posted_again_ = 0;
    std::atomic<std::int64_t> sent_back_ = 0;

    std::int64_t last_memory_ = 0;
    std::int64_t posts_ = 0;
    std::int64_t last_order_ = 0;
    std::vector<Post> unanswered_;
    Mutex mutex_;
    Condition answered_;
    std::unordered_map<std::int64_t, bool> answers_ GUARDED_BY(mutex_);  // by Message::id: accepted?

    std::vector<std::unique_ptr<daemon::Periodic>> threads_;  // last: they use the rest
};

}  // namespace deliverd::demo
