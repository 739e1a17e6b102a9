#include "deadletter/kafka/replayer.h"

#include <fmt/format.h>

#include <atomic>
#include <memory>

#include "base/assert.h"
#include "base/mutex.h"
#include "base/try.h"
#include "deadletter/kafka/window.h"
#include "sink/kafka/kafka_sink.h"
#include "sink/kafka/report.h"
#include "sink/sink.h"

namespace deliverd::deadletter {

namespace {

// The broker decides what is too large, not librdkafka's 1 MB: it had the record before.
constexpr std::string_view kMaxRecordBytes = "67108864";
static_assert(kTopicCodes[0] == sink::kUnknownTopic && kTopicCodes[1] == sink::kNotAuthorized);
constexpr std::size_t kChunk = 500;  // records handed over at once; librdkafka sends while the next ones are prepared

sink::KafkaSinkOptions producer_options(const ReplayerOptions& options) {
    sink::KafkaSinkOptions out;
    const sink::KafkaClientOptions& client = options;
    static_cast<sink::KafkaClientOptions&>(out) = client;
    // At the beginning, so that the configuration's own, which come later, win.
    out.librdkafka.emplace(out.librdkafka.begin(), "message.max.bytes", kMaxRecordBytes);
    out.timeout = options.timeout;
    out.linger = options.linger;
    out.null_keys = true;
    out.log_name = "replay of dead letters";
    return out;
}

Outcome no_room(Duration waited) {
    return not_attempted(
        sink::kQueueFull,
        fmt::format("other retries left no room to publish it within {} s; nothing was sent", to_seconds(waited)));
}

Outcome stopping() {
    return not_attempted(sink::kStopped, "deliverd is stopping; nothing was sent");
}

/// The outcomes of one publish(), which waits for them.
class Call final : public sink::RecordReceiver {
public:
    Call(std::span<const Record> records, Window& window)
        : records_(records), window_(window), outcomes_(records.size()), left_(records.size()) {}

    void on_outcome(const Record& record, Outcome outcome) override {
        window_.leave(content_bytes(record));  // before end(): with the last outcome this object may be gone
        // The publisher says that the sink was stopped, which the caller knows nothing of.
        if (outcome.code == sink::kStopped && outcome.kind == OutcomeKind::retryable) outcome = stopping();
        end(static_cast<std::size_t>(&record - records_.data()), std::move(outcome));
    }

    void end(std::size_t index, Outcome outcome) {
        const MutexLock lock(mutex_);
        ASSERT(left_ > 0);
        outcomes_[index] = std::move(outcome);
        if (--left_ == 0) done_.notify_all();
    }

    /// The publisher promises an outcome for every record. Once.
    std::vector<Outcome> wait() {
        const MutexLock lock(mutex_);
        done_.wait(mutex_, [this]() REQUIRES(mutex_) { return left_ == 0; });
        return std::move(outcomes_);
    }

private:
    const std::span<const Record> records_;
    Window& window_;
    Mutex mutex_;
    Condition done_;
    std::vector<Outcome> outcomes_ GUARDED_BY(mutex_);
    std::size_t left_ GUARDED_BY(mutex_);
};

class KafkaReplayer final : public Replayer {
public:
    KafkaReplayer(Duration timeout, std::unique_ptr<sink::RecordPublisher> publisher)
        : timeout_(timeout), publisher_(std::move(publisher)) {}

    std::vector<Outcome> publish(std::span<const Record> records) override {
        Call call(records, window_);
        const auto until = clock_.now() + timeout_;
        std::vector<const Record*> entered;
        for (std::size_t i = 0; i < records.size(); ++i) {
            const auto bytes = content_bytes(records[i]);
            if (entered.size() == kChunk) hand_over(entered, call);
            if (window_.enter(bytes, Duration::zero())) {
                entered.push_back(&records[i]);
                continue;
            }
            hand_over(entered, call);  // otherwise it would wait for room that these take
            if (window_.enter(bytes, until - clock_.now())) {
                entered.push_back(&records[i]);
            } else {
                call.end(i, stopped_ ? stopping() : no_room(timeout_));
            }
        }
        hand_over(entered, call);
        return call.wait();
    }

    Result<void> check(Duration deadline) override { return publisher_->check(deadline); }

    void stop() override {
        stopped_ = true;  // before the window: publish() looks at it when enter() has failed
        window_.stop();
        publisher_->stop(Duration::zero());
    }

private:
    void hand_over(std::vector<const Record*>& entered, Call& call) {
        if (!entered.empty()) publisher_->send(entered, call);
        entered.clear();
    }

    const Duration timeout_;
    const SystemClock clock_;
    std::atomic<bool> stopped_ = false;
    Window window_{kWindowRecords, kWindowBytes};
    const std::unique_ptr<sink::RecordPublisher> publisher_;
};

}  // namespace

Result<void> check_replayer_options(const ReplayerOptions& options) {
    return sink::check_kafka_options(producer_options(options));
}

Result<std::unique_ptr<Replayer>> make_replayer(const ReplayerOptions& options, Log& log) {
    TRY_ASSIGN(auto publisher, sink::make_record_publisher(producer_options(options), log));
    return std::make_unique<KafkaReplayer>(options.timeout, std::move(publisher));
}

}  // namespace deliverd::deadletter
