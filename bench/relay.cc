// How many events per second a relay sends from a table that costs nothing to a sink that costs nothing: the cost of
// its own decisions and threads. Run by hand: build/bench_relay [events] [aggregates]
#include "relay/relay.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <string>
#include <thread>

namespace {

using namespace deliverd;

/// Rows 1 to `rows`, and which of them are published.
class LongTable final : public store::EventOutbox {
public:
    LongTable(std::int64_t rows, std::int64_t aggregates)
        : rows_(rows), aggregates_(aggregates), published_(static_cast<std::size_t>(rows) + 1) {}

    Result<store::EventBatch> read(const store::EventRead& request) override {
        store::EventBatch batch;
        std::int64_t id = request.after ? std::stoll(*request.after) : 0;
        const std::lock_guard lock(mutex_);
        while (first_open_ <= rows_ && published_[static_cast<std::size_t>(first_open_)]) ++first_open_;
        id = std::max(id, first_open_ - 1);
        const std::int64_t last = request.up_to ? std::min<std::int64_t>(std::stoll(*request.up_to), rows_) : rows_;
        batch.rows.reserve(static_cast<std::size_t>(request.limit));
        while (id < last && batch.rows.size() < static_cast<std::size_t>(request.limit)) {
            if (published_[static_cast<std::size_t>(++id)]) continue;
            store::EventRow row;
            row.sequence = id;
            row.row_id = std::to_string(id);
            row.age_seconds = 10;
            row.message.id = id;
            row.message.message_id = "0b5ff1c2-0000-0000-0000-" + row.row_id;
            row.message.key = "aggregate-" + std::to_string(id % aggregates_);
            row.message.type = "OrderCreated";
            row.message.body = std::string(200, 'x');
            batch.rows.push_back(std::move(row));
        }
        return batch;
    }
    Result<std::vector<store::EventSettled>> settle(std::string_view,
                                                    std::span<const store::EventSettlement> settlements) override {
        const std::lock_guard lock(mutex_);
        for (const store::EventSettlement& settlement : settlements) {
            published_[static_cast<std::size_t>(settlement.settlement.id)] = true;
        }
        settled_ += static_cast<std::int64_t>(settlements.size());
        return std::vector<store::EventSettled>(settlements.size(), store::EventSettled::applied);
    }
    Result<store::ShardShare> tend(std::string_view, Duration) override {
        return store::ShardShare{.held = {{0, 1}}, .relays = 1, .share = 1};
    }
    Result<void> release(std::string_view, std::span<const store::ShardLease>) override { return {}; }
    Result<void> leave(std::string_view) override { return {}; }
    Result<void> set_asleep(std::string_view, bool) override { return {}; }
    std::unique_ptr<store::EventListener> listen(std::function<void()>) override { return nullptr; }
    Result<double> lag_seconds() override { return 0.0; }
    Result<store::RowCounts> counts() override { return store::RowCounts{}; }
    Result<void> ping(Duration) override { return {}; }
    Result<std::int64_t> remove_published(Duration, std::int32_t) override { return 0; }
    Result<std::vector<store::Finding>> inspect() override { return std::vector<store::Finding>{}; }

    [[nodiscard]] bool done() const { return settled_ >= rows_; }

private:
    const std::int64_t rows_;
    const std::int64_t aggregates_;
    std::mutex mutex_;
    std::vector<bool> published_;
    std::int64_t first_open_ = 1;
    std::atomic<std::int64_t> settled_{0};
};

class NothingSink final : public sink::Sink {
public:
    void send(std::span<const Message* const> messages, sink::OutcomeReceiver& receiver) override {
        for (const Message* message : messages) receiver.on_outcome(*message, {.kind = OutcomeKind::delivered});
    }
    void stop(Duration) override {}
    Result<void> check(Duration) override { return {}; }
};

}  // namespace

int main(int argc, char** argv) {
    const std::int64_t events = argc > 1 ? std::atoll(argv[1]) : 1'000'000;
    const std::int64_t aggregates = argc > 2 ? std::atoll(argv[2]) : 10'000;
    LongTable table(events, aggregates);
    NothingSink sink;
    SystemClock clock;
    SystemRandom random;
    pipeline::Observer observer;
    NullLog log;
    relay::RelayOptions options;
    options.topic = *TopicTemplate::parse("{event_type}");
    relay::Relay relay(options, table, sink, clock, random, observer, log);
    const auto began = std::chrono::steady_clock::now();
    const std::clock_t used = std::clock();
    relay.start();
    while (!table.done()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    const double processor = static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC;
    relay.stop(std::chrono::seconds(1));
    std::printf("%.0f events/s, %.2f us of processor time per event\n", static_cast<double>(events) / seconds,
                processor * 1e6 / static_cast<double>(events));
    return 0;
}
