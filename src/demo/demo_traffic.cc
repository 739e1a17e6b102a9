#include "demo/demo_traffic.h"

#include <fmt/format.h>

#include <utility>

#include "base/mutex.h"
#include "base/try.h"
#include "sink/http/http_sink.h"

namespace deliverd::demo {

namespace {

/// A high rate is kept by storing what has become due together: a commit waits for the disk, however many rows it has.
constexpr std::int64_t kMostMemoriesTogether = 500;
constexpr std::int64_t kEqualMemoryEvery = 12;
constexpr std::int64_t kMostOrdersTogether = 64;
constexpr std::int64_t kOldOrderEvery = 6;
constexpr std::int64_t kMostEventsTogether = 100;
constexpr std::int64_t kOrdersAtOnce = 7;  // whose events are written in turn
constexpr int kLastPosts = 5;              // of what is unanswered at the end
constexpr Duration kPostTimeout = std::chrono::seconds(5);
constexpr double kLooksASecond = 0.5;  // at the dead letters
constexpr std::int32_t kLettersALook = 20;

/// Now and then the very same again: the lane must not send it a second time.
store::NewMemory memory(std::int64_t number) {
    const bool equal = number % kEqualMemoryEvery == 0;
    return {"demo", equal ? std::string("the kettle is on") : fmt::format("memory number {}", number), number};
}

Message order(std::int64_t number) {
    Message message;
    message.message_id = fmt::format("demo-order-{:06}", number);
    message.content_type = "application/json";
    message.body = fmt::format(
        R"({{"idempotency_key":"{}","symbol":"USDJPY","intent":"{}","qty":{},"limit_price":{}.{:03},"meta":{{"source":"demo"}}}})",
        message.message_id, number % 2 == 0 ? "BUY" : "SELL", 1000 * (number % 9 + 1), 140 + number % 10,
        number % 1000);
    return message;
}

}  // namespace

SteadyThread::SteadyThread(double rate, std::int64_t most_together, Work work)
    : interval_(from_seconds(1 / rate)),
      most_together_(most_together),
      work_(std::move(work)),
      thread_([this] { run(); }) {}

void SteadyThread::stop() {
    {
        const MutexLock lock(mutex_);
        ending_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void SteadyThread::run() {
    const SystemClock clock;
    Instant next = clock.now();
    while (true) {
        std::int64_t due = 0;
        for (const Instant now = clock.now(); next <= now && due < most_together_; next += interval_) ++due;
        if (due > 0) work_(due);
        const MutexLock lock(mutex_);
        if (wake_.wait_until(mutex_, next, [this]() REQUIRES(mutex_) { return ending_; })) return;
    }
}

MemoryTraffic::MemoryTraffic(store::Database& database, double rate)
    : database_(database), thread_(rate, kMostMemoriesTogether, [this](std::int64_t due) { enqueue(due); }) {}

void MemoryTraffic::enqueue(std::int64_t due) {
    std::vector<store::NewMemory> memories;
    for (; due > 0; --due) memories.push_back(memory(++last_number_));
    if (const auto ids = database_.enqueue_memories(memories)) enqueued_ += std::ssize(*ids);
}

EventTraffic::EventTraffic(store::Database& database, double rate)
    : database_(database), thread_(rate, kMostEventsTogether, [this](std::int64_t due) { write(due); }) {}

void EventTraffic::write(std::int64_t due) {
    const auto events = database_.events(std::nullopt);
    if (!events) return;
    for (; due > 0; --due) {
        // One event each time, of orders that overlap: 1 created, 2 created, … 1 paid, 2 paid, …
        const std::int64_t step = last_number_ / kOrdersAtOnce % std::ssize(kEventSteps);
        const std::int64_t turn = last_number_ / (kOrdersAtOnce * std::ssize(kEventSteps));
        const std::int64_t order = turn * kOrdersAtOnce + last_number_ % kOrdersAtOnce + 1;
        const std::string aggregate = fmt::format("order-{}", order);
        const std::string payload = fmt::format(R"({{"order": {}, "total": {}}})", order, 10 + order % 90);
        const std::string_view type = kEventSteps.at(static_cast<std::size_t>(step));
        if (!(*events)->add({aggregate, type, payload, R"({"source": "demo"})"})) return;
        ++last_number_;
        ++written_;
    }
}

LetterTraffic::LetterTraffic(store::Database& database, Log& log)
    : letters_(database.dead_letters()),
      manager_({}, *letters_, nullptr, log),  // its letters go back into their lanes: no replayer is needed
      thread_(kLooksASecond, 1, [this](std::int64_t) { retry_some(); }) {}

void LetterTraffic::retry_some() {
    store::LetterQuery query;
    query.status = store::LetterStatus::pending;
    query.limit = kLettersALook;
    const auto page = letters_->list(query);
    if (!page) return;
    for (std::size_t at = 0; at < page->letters.size(); at += 2) {
        const auto report = manager_.retry(page->letters[at].id, "demo");
        if (report.answer == deadletter::RetryAnswer::resolved) ++sent_back_;
    }
}

Result<std::unique_ptr<OrderTraffic>> OrderTraffic::start(const std::string& address, double rate, Log& log) {
    sink::HttpSinkOptions options;
    options.url = address + "/api/v1/orders";
    options.timeout = kPostTimeout;
    TRY_ASSIGN(auto sink, sink::make_http_sink(std::move(options), log));
    return std::unique_ptr<OrderTraffic>(new OrderTraffic(std::move(sink), rate));
}

OrderTraffic::OrderTraffic(std::unique_ptr<sink::Sink> sink, double rate)
    : sink_(std::move(sink)),
      thread_(std::make_unique<SteadyThread>(rate, kMostOrdersTogether, [this](std::int64_t due) { post(due); })) {}

void OrderTraffic::stop() {
    thread_->stop();
    for (int turn = 0; turn < kLastPosts && !unanswered_.empty(); ++turn) post_all(std::exchange(unanswered_, {}));
    sink_->stop(Duration::zero());
}

OrderTraffic::Post OrderTraffic::next_post() {
    ++posts_;
    const bool again = posts_ % kOldOrderEvery == 0 && last_number_ > 0;
    Post post{order(again ? posts_ * 7 % last_number_ + 1 : ++last_number_), again};
    post.message.id = posts_;
    return post;
}

void OrderTraffic::post(std::int64_t due) {
    std::vector<Post> posts = std::exchange(unanswered_, {});
    for (; due > 0; --due) posts.push_back(next_post());
    post_all(std::move(posts));
}

void OrderTraffic::post_all(std::vector<Post> posts) {
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
            ++repeated_;
        }
    }
    answers_.clear();
}

void OrderTraffic::on_outcome(const Message& message, Outcome outcome) {
    const MutexLock lock(mutex_);
    answers_.emplace(message.id, outcome.kind == OutcomeKind::delivered);
    answered_.notify_all();
}

}  // namespace deliverd::demo
