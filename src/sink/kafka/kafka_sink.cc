#include "sink/kafka/kafka_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <list>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/try.h"
#include "sink/kafka/producer.h"
#include "sink/kafka/report.h"
#include "sink/thread_sink.h"

namespace deliverd::sink {

namespace {

constexpr Duration kFlushSlice = std::chrono::milliseconds(50);  // a second, less patient stop() takes effect this soon
constexpr Duration kPurgePatience = std::chrono::seconds(1);     // for the reports of what was purged
constexpr Duration kProbeDeadline = std::chrono::seconds(1);     // of one question to the brokers
constexpr Duration kLookPause = std::chrono::milliseconds(100);  // between two questions
constexpr Duration kCheckSlice = std::chrono::milliseconds(200);
constexpr Duration kGiveUpAfter = std::chrono::seconds(1);   // check(): long enough to try every address of a host
constexpr Duration kReplacePause = std::chrono::seconds(1);  // between two producers

// Message and Record differ only in these, and in how a producer takes them.
std::size_t body_bytes(const Message& message) {
    return message.body.size();
}

std::size_t body_bytes(const Record& record) {
    return record.value ? record.value->size() : 0;
}

std::size_t size_of(const Message& message) {
    std::size_t bytes = message.body.size() + message.key.size();
    each_plain_attribute(message, [&](auto name, auto value) { bytes += name.size() + value.size(); });
    return bytes;
}

std::size_t size_of(const Record& record) {
    return content_bytes(record);
}

/// The sink is this class with Port = Sink. Reports come on the producers' own threads. What may have to wait for a
/// broker is done by a thread of its own, the keeper, so that no report waits for it.
template <typename Port, typename Item, typename Receiver>
class Publisher final : public Port {
public:
    Publisher(KafkaSinkOptions options, Log& log) : options_(std::move(options)), log_(log) {}
    ~Publisher() override { stop(Duration::zero()); }

    /// Call it first and once. Permanent error where librdkafka refuses the settings.
    [[nodiscard]] Result<void> start() {
        TRY_ASSIGN(auto producer, make_producer(Batching::many));
        {
            const MutexLock lock(mutex_);
            many_ = std::move(producer);
        }
        keeper_ = std::thread([this] { keep(); });
        return {};
    }

    void send(std::span<const Item* const> items, Receiver& receiver) override {
        // Held until the last item is with librdkafka: stop() must find no producer that still gets messages.
        const MutexLock lock(mutex_);
        if (stop_at_) {
            for (const Item* item : items) receiver.on_outcome(*item, stopped_unsent());
            return;
        }
        for (const Item* item : items) {
            if (!is_topic_name(item->topic)) {
                receiver.on_outcome(*item, bad_topic(item->topic));
            } else if (many_->fatal()) {
                receiver.on_outcome(*item, producer_replaced());
            } else if (!many_->reachable()) {
                // In librdkafka's queue it would wait for its whole timeout before it failed.
                receiver.on_outcome(*item, broker_unreachable(many_->trouble()));
            } else {
                produce(*many_, begin(*item, receiver));
            }
        }
    }

    void stop(Duration patience) override {
        {
            const MutexLock lock(mutex_);
            stop_at_ = stop_deadline(clock_.now(), patience, stop_at_);
            wake_.notify_all();
        }
        const MutexLock stopping(stop_mutex_);
        if (keeper_.joinable()) keeper_.join();
        std::vector<std::shared_ptr<Producer>> producers;
        {
            const MutexLock lock(mutex_);  // none is made or replaced any more
            producers = std::exchange(retired_, {});
            if (alone_) producers.push_back(std::exchange(alone_, nullptr));
            if (many_) producers.push_back(std::exchange(many_, nullptr));
        }
        while (!none_left(Duration::zero()) && left() > Duration::zero()) {
            for (const auto& producer : producers) static_cast<void>(producer->flush(std::min(left(), kFlushSlice)));
        }
        // A purge reports for each message whether it was in flight.
        if (!none_left(Duration::zero())) {
            for (const auto& producer : producers) producer->purge();
            static_cast<void>(none_left(kPurgePatience));
        }
        for (const auto& producer : producers) producer->end();
        // Nothing reports any more. What is left may have been in flight.
        while (!none_left(Duration::zero())) end(first_job(), stopped_under_way());
    }

    [[nodiscard]] Result<void> check(Duration deadline) override {
        const auto until = clock_.now() + deadline;
        NullLog silent;
        // A producer of its own, so that its errors are about this attempt.
        TRY_ASSIGN(const auto producer,
                   Producer::start(
                       options_, Batching::many, silent, [](const Producer&, const rd_kafka_message_t&) {}, [] {}));
        auto reached_until = clock_.now();
        // It turns unreachable at the first address that refuses, and a host's name may have several.
        while (clock_.now() < until && clock_.now() - reached_until < kGiveUpAfter) {
            if (producer->ask(std::min(until - clock_.now(), kCheckSlice))) return {};
            if (producer->reachable()) reached_until = clock_.now();
        }
        const auto trouble = producer->trouble();
        return retryable(std::string(kBrokerUnreachable),
                         fmt::format("cannot reach Kafka at {}: {}; check brokers and security.protocol",
                                     options_.brokers, trouble.empty() ? "no broker answered in time" : trouble));
    }

private:
    /// An item without an outcome. It stays where it is until end(), which librdkafka's report leads to.
    struct Job {
        const Item* item = nullptr;
        Receiver* receiver = nullptr;
        typename std::list<Job>::iterator place{};
        bool alone = false;  // sent by the producer that batches nothing
    };

    [[nodiscard]] Job& begin(const Item& item, Receiver& receiver) {
        const MutexLock lock(jobs_mutex_);
        Job& job = jobs_.emplace_back(Job{&item, &receiver});
        job.place = std::prev(jobs_.end());
        return job;
    }

    /// Reports the outcome. The job is gone afterwards.
    void end(Job& job, Outcome outcome) {
        job.receiver->on_outcome(*job.item, std::move(outcome));
        const MutexLock lock(jobs_mutex_);  // after the report: stop() returns when no job is left
        jobs_.erase(job.place);
        if (jobs_.empty()) none_.notify_all();
    }

    /// Whether nothing is under way any more. Blocks for at most `patience`.
    [[nodiscard]] bool none_left(Duration patience) {
        const MutexLock lock(jobs_mutex_);
        return none_.wait_for(jobs_mutex_, patience, [this]() REQUIRES(jobs_mutex_) { return jobs_.empty(); });
    }

    [[nodiscard]] Job& first_job() {
        const MutexLock lock(jobs_mutex_);
        return jobs_.front();
    }

    [[nodiscard]] Result<std::unique_ptr<Producer>> make_producer(Batching batching) {
        return Producer::start(
            options_, batching, log_,
            [this](const Producer& producer, const rd_kafka_message_t& report) { take(producer, report); },
            [this] {
                const MutexLock lock(mutex_);
                look_ = true;
                wake_.notify_all();
            });
    }

    /// On a producer's thread.
    void take(const Producer& producer, const rd_kafka_message_t& report) {
        Job& job = *static_cast<Job*>(report._private);
        if (report.err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            return end(job, delivered(job.item->topic, report.partition, report.offset));
        }
        const auto status = rd_kafka_message_status(&report);
        // The size of the whole batch was refused, which says nothing about this message.
        const bool whole_batch = report.err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE && !job.alone;
        if (whole_batch && status == RD_KAFKA_MSG_STATUS_NOT_PERSISTED) return send_alone(job);
        fail(producer, job, report.err, status);
    }

    void send_alone(Job& job) EXCLUDES(mutex_) {
        job.alone = true;
        const MutexLock lock(mutex_);
        if (stop_at_) return end(job, stopped_unsent());
        if (!alone_) {
            // A second producer: the size of a batch is a setting of the whole producer, and the first must not get
            // slow for one large message.
            auto made = make_producer(Batching::one_each);
            if (!made) return end(job, producer_replaced());
            alone_ = std::move(*made);
            log_.warn("a batch was larger than Kafka accepts; its messages are sent one by one",
                      {{"sink", options_.log_name}, {"topic", job.item->topic}, {"lower", "librdkafka: batch.size"}});
        }
        produce(*alone_, job);
    }

    void produce(Producer& producer, Job& job) {
        const auto error = producer.produce(*job.item, &job);
        if (error != RD_KAFKA_RESP_ERR_NO_ERROR) fail(producer, job, error, RD_KAFKA_MSG_STATUS_NOT_PERSISTED);
    }

    void fail(const Producer& producer, Job& job, rd_kafka_resp_err_t error, rd_kafka_msg_status_t status) {
        const std::string trouble = producer.trouble();
        end(job, outcome_of({.error = error,
                             .status = status,
                             .topic = job.item->topic,
                             .body_bytes = body_bytes(*job.item),
                             .bytes = size_of(*job.item),
                             .timeout = options_.timeout,
                             .unreachable = !producer.reachable(),
                             .fatal = producer.fatal(),
                             .trouble = trouble}));
    }

    [[nodiscard]] Duration left() {
        const MutexLock lock(mutex_);
        return *stop_at_ - clock_.now();
    }

    /// The keeper's thread: checks for the brokers while they are away, replaces producers that failed permanently.
    void keep() {
        MutexLock lock(mutex_);
        while (true) {
            wake_.wait(mutex_, [this]() REQUIRES(mutex_) { return stop_at_ || look_; });
            if (stop_at_) return;
            look_ = false;
            const auto many = many_;
            const auto alone = alone_;
            lock.unlock();
            const bool settled = look_after(*many, alone.get());
            lock.lock();
            if (!settled) look_ = true;
            if (look_) wake_.wait_for(mutex_, kLookPause, [this]() REQUIRES(mutex_) { return stop_at_.has_value(); });
        }
    }

    /// False while the brokers are away or a producer still has to be replaced or dropped.
    bool look_after(Producer& many, const Producer* alone) {
        bool settled = true;
        if (many.fatal()) settled = replace(&Publisher::many_, Batching::many);
        if (alone != nullptr && alone->fatal()) settled = replace(&Publisher::alone_, Batching::one_each) && settled;
        settled = drop_retired() && settled;
        if (many.fatal()) return settled;
        const bool was_reachable = many.reachable();
        const bool reachable = many.ask(kProbeDeadline);
        many.set_reachable(reachable);
        if (!was_reachable && reachable) log_.info("Kafka can be reached again", {{"sink", options_.log_name}});
        if (was_reachable && !reachable) log_.warn("Kafka does not answer", {{"sink", options_.log_name}});
        return settled && reachable;
    }

    /// Its messages in flight still get their reports. Replaces at most one producer per kReplacePause: the
    /// cause of one permanent failure may make the next one fail too.
    bool replace(std::shared_ptr<Producer> Publisher::* place, Batching batching) EXCLUDES(mutex_) {
        if (replaced_at_ && clock_.now() - *replaced_at_ < kReplacePause) return false;
        replaced_at_ = clock_.now();
        auto made = make_producer(batching);
        if (!made) {
            log_.error("cannot replace a Kafka producer",
                       {{"sink", options_.log_name}, {"error", made.error().message}});
            return false;
        }
        log_.warn("a Kafka producer was replaced", {{"sink", options_.log_name}});
        const MutexLock lock(mutex_);
        retired_.push_back(std::exchange(this->*place, std::move(*made)));
        return true;
    }

    /// Drops replaced producers that have nothing under way. Whether none is left.
    bool drop_retired() {
        // Before the lock, so that they end without it: a producer's end waits for its thread, which may be in
        // send_alone() and want the lock.
        std::vector<std::shared_ptr<Producer>> idle;
        const MutexLock lock(mutex_);
        for (const auto& producer : retired_) {
            if (producer->flush(Duration::zero())) idle.push_back(producer);
        }
        for (const auto& producer : idle) std::erase(retired_, producer);
        return retired_.empty();
    }

    const KafkaSinkOptions options_;
    Log& log_;
    const SystemClock clock_;

    Mutex jobs_mutex_;  // held for a moment only, also under mutex_
    Condition none_;
    std::list<Job> jobs_ GUARDED_BY(jobs_mutex_);  // bounded by the caller

    Mutex mutex_;
    Condition wake_;
    std::optional<Instant> stop_at_ GUARDED_BY(mutex_);  // set once stop() was called
    bool look_ GUARDED_BY(mutex_) = false;               // the keeper has work
    std::shared_ptr<Producer> many_ GUARDED_BY(mutex_);
    std::shared_ptr<Producer> alone_ GUARDED_BY(mutex_);  // made when a batch was refused for its size
    // Failed permanently, and still have messages without a report.
    std::vector<std::shared_ptr<Producer>> retired_ GUARDED_BY(mutex_);

    std::optional<Instant> replaced_at_;  // used by the keeper only
    Mutex stop_mutex_;
    std::thread keeper_;
};

template <typename Port, typename Item, typename Receiver>
Result<std::unique_ptr<Port>> started(std::string_view what, KafkaSinkOptions options, Log& log) {
    try {
        auto made = std::make_unique<Publisher<Port, Item, Receiver>>(std::move(options), log);
        TRY(made->start());
        return made;
    } catch (const std::exception& error) {
        return retryable("no_resources", fmt::format("cannot start {}: {}", what, error.what()));
    }
}

}  // namespace

Result<void> check_kafka_options(const KafkaSinkOptions& options) {
    TRY_ASSIGN(auto conf, make_conf(options, Batching::many));
    return try_client(RD_KAFKA_PRODUCER, std::move(conf), options.librdkafka);
}

Result<std::unique_ptr<Sink>> make_kafka_sink(KafkaSinkOptions options, Log& log) {
    return started<Sink, Message, OutcomeReceiver>("the kafka sink", std::move(options), log);
}

Result<std::unique_ptr<RecordPublisher>> make_record_publisher(KafkaSinkOptions options, Log& log) {
    return started<RecordPublisher, Record, RecordReceiver>("publishing to Kafka", std::move(options), log);
}

}  // namespace deliverd::sink
