// The demo's sample traffic.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/try.h"
#include "daemon/periodic.h"
#include "deadletter/manager.h"
#include "demo/demo_receiver.h"
#include "sink/http/http_sink.h"
#include "store/database.h"

namespace deliverd::demo {

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
                                                  Log& log) {
        sink::HttpSinkOptions options;
        options.url = address + "/api/v1/orders";
        options.timeout = kPostTimeout;
        TRY_ASSIGN(auto sink, sink::make_http_sink(std::move(options), log));
        std::unique_ptr<Traffic> traffic(new Traffic(database, std::move(sink), log));
        const auto add = [raw = traffic.get()](double per_second, std::int64_t most_together,
                                               void (Traffic::*work)(std::int64_t)) {
            raw->threads_.push_back(
                steadily(per_second, most_together, [raw, work](std::int64_t due) { (raw->*work)(due); }));
        };
        add(rate, kMostMemoriesTogether, &Traffic::enqueue_memories);
        add(rate * kOrdersShare, kMostOrdersTogether, &Traffic::post_orders);
        add(rate * kEventsShare, kMostEventsTogether, &Traffic::write_events);
        add(kLooksPerSecond, 1, &Traffic::retry_some_letters);
        return traffic;
    }
    ~Traffic() override { stop(); }

    /// Makes nothing new, and posts unanswered orders again until they are answered, a few times at most.
    void stop() {
        threads_.clear();
        for (int turn = 0; turn < kLastPosts && !unanswered_.empty(); ++turn) post_all(std::exchange(unanswered_, {}));
        sink_->stop(Duration::zero());
    }

    [[nodiscard]] std::int64_t memories() const { return memories_; }
    [[nodiscard]] std::int64_t events() const { return events_; }
    [[nodiscard]] std::int64_t posted_again() const { return posted_again_; }  // orders that were accepted before
    [[nodiscard]] std::int64_t sent_back() const { return sent_back_; }        // dead letters

private:
    // A commit waits for the disk, however many rows it has: only rows that are stored together keep up a high rate.
    static constexpr std::int64_t kMostMemoriesTogether = 500;
    static constexpr std::int64_t kEqualMemoryEvery = 12;
    static constexpr std::int64_t kMostOrdersTogether = 64;
    static constexpr std::int64_t kOldOrderEvery = 6;
    static constexpr std::int64_t kMostEventsTogether = 100;
    static constexpr std::int64_t kOrdersAtOnce = 7;  // whose events are written in turn
    static constexpr int kLastPosts = 5;              // of what is unanswered at the end
    static constexpr Duration kPostTimeout = std::chrono::seconds(5);
    static constexpr double kOrdersShare = 0.25;    // orders posted for each memory
    static constexpr double kEventsShare = 0.5;     // events written for each memory
    static constexpr double kLooksPerSecond = 0.5;  // at the dead letters
    static constexpr std::int32_t kLettersPerLook = 20;

    struct Post {
        Message message;
        bool again = false;  // on purpose: an order that was posted before
    };

    Traffic(store::Database& database, std::unique_ptr<sink::Sink> sink, Log& log)
        : database_(database),
          letters_(database.dead_letters()),
          manager_({}, *letters_, nullptr, log),  // its letters go back into their lanes: no replayer is needed
          sink_(std::move(sink)) {}

    /// Now and then the very same again: the lane must not send it a second time.
    static store::NewMemory memory(std::int64_t number) {
        const bool equal = number % kEqualMemoryEvery == 0;
        return {"demo", equal ? std::string("the kettle is on") : fmt::format("memory number {}", number), number};
    }

    static Message order(std::int64_t number) {
        Message message;
        message.message_id = fmt::format("demo-order-{:06}", number);
        message.content_type = "application/json";
        message.body = fmt::format(
            R"({{"idempotency_key":"{}","symbol":"USDJPY","intent":"{}","qty":{},"limit_price":{}.{:03},"meta":{{"source":"demo"}}}})",
            message.message_id, number % 2 == 0 ? "BUY" : "SELL", 1000 * (number % 9 + 1), 140 + number % 10,
            number % 1000);
        return message;
    }

    /// Calls `work` with how many are due, about `rate` times a second. What has become due meanwhile is handed over
    /// together, at most `most_together`.
    static std::unique_ptr<daemon::Periodic> steadily(double rate, std::int64_t most_together,
                                                      std::function<void(std::int64_t due)> work) {
        const auto turn = [interval = from_seconds(1 / rate), most_together, work = std::move(work),
                           next = SystemClock().now()]() mutable -> Duration {
            const SystemClock clock;
            std::int64_t due = 0;
            for (const Instant now = clock.now(); next <= now && due < most_together; next += interval) ++due;
            if (due > 0) work(due);
            return next - clock.now();
        };
        return std::make_unique<daemon::Periodic>(turn);
    }

    void enqueue_memories(std::int64_t due) {
        std::vector<store::NewMemory> memories;
        for (; due > 0; --due) memories.push_back(memory(++last_memory_));
        if (const auto ids = database_.enqueue_memories(memories)) memories_ += std::ssize(*ids);
    }

    void write_events(std::int64_t due) {
        const auto outbox = database_.events(std::nullopt);
        if (!outbox) return;
        for (; due > 0; --due) {
            // One event each time, of orders that overlap: 1 created, 2 created, … 1 paid, 2 paid, …
            const std::int64_t step = events_ / kOrdersAtOnce % std::ssize(kEventSteps);
            const std::int64_t turn = events_ / (kOrdersAtOnce * std::ssize(kEventSteps));
            const std::int64_t order = turn * kOrdersAtOnce + events_ % kOrdersAtOnce + 1;
            const std::string aggregate = fmt::format("order-{}", order);
            const std::string payload = fmt::format(R"({{"order": {}, "total": {}}})", order, 10 + order % 90);
            const std::string_view type = kEventSteps.at(static_cast<std::size_t>(step));
            if (!(*outbox)->add({aggregate, type, payload, R"({"source": "demo"})"})) return;
            ++events_;
        }
    }

    void retry_some_letters(std::int64_t /*due*/) {
        store::LetterQuery query;
        query.status = store::LetterStatus::pending;
        query.limit = kLettersPerLook;
        const auto page = letters_->list(query);
        if (!page) return;
        // Every second one: dead letters should still be there to be looked at.
        for (std::size_t at = 0; at < page->letters.size(); at += 2) {
            const auto report = manager_.retry(page->letters[at].id, "demo");
            if (report.answer == deadletter::RetryAnswer::resolved) ++sent_back_;
        }
    }

    Post next_post() {
        ++posts_;
        const bool again = posts_ % kOldOrderEvery == 0 && last_order_ > 0;
        Post post{order(again ? posts_ * 7 % last_order_ + 1 : ++last_order_), again};
        post.message.id = posts_;
        return post;
    }

    void post_orders(std::int64_t due) {
        std::vector<Post> posts = std::exchange(unanswered_, {});
        for (; due > 0; --due) posts.push_back(next_post());
        post_all(std::move(posts));
    }

    /// Posts them and waits for all answers; what was not accepted is in unanswered_ afterwards.
    void post_all(std::vector<Post> posts) {
        std::vector<const Message*> batch;
        for (const Post& post : posts) batch.push_back(&post.message);
        sink_->send(batch, *this);
        const MutexLock lock(mutex_);
        // Each answer comes within the sink's timeout.
        answered_.wait(mutex_, [&]() REQUIRES(mutex_) { return answers_.size() == posts.size(); });
        for (Post& post : posts) {
            if (!answers_.at(post.message.id)) {
                unanswered_.push_back(std::move(post));
            } else if (post.again) {
                ++posted_again_;
            }
        }
        answers_.clear();
    }

    void on_outcome(const Message& message, Outcome outcome) override {
        const MutexLock lock(mutex_);
        answers_.emplace(message.id, outcome.kind == OutcomeKind::delivered);
        answered_.notify_all();
    }

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
