#include "sink/kafka/publisher.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/text.h"
#include "base/try.h"
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

std::size_t body_bytes(const Message& message) {
    return message.body.size();
}

std::size_t body_bytes(const Record& record) {
    return record.value ? record.value->size() : 0;
}

std::size_t size_of(const Message& message) {
    std::size_t bytes = message.body.size() + message.key.size();
    each_plain_attribute(message,
                         [&](std::string_view name, std::string_view value) { bytes += name.size() + value.size(); });
    return bytes;
}

std::size_t size_of(const Record& record) {
    std::size_t bytes = body_bytes(record) + (record.key ? record.key->size() : 0);
    for (const auto& header : record.headers) bytes += header.name.size() + (header.value ? header.value->size() : 0);
    return bytes;
}

}  // namespace

template <typename Item, typename Receiver>
Publisher<Item, Receiver>::Publisher(KafkaSinkOptions options, Log& log) : options_(std::move(options)), log_(log) {}

template <typename Item, typename Receiver>
Publisher<Item, Receiver>::~Publisher() {
    stop(Duration::zero());
}

template <typename Item, typename Receiver>
Result<void> Publisher<Item, Receiver>::start() {
    TRY_ASSIGN(auto producer, make_producer(Batching::many));
    {
        const MutexLock lock(mutex_);
        many_ = std::move(producer);
    }
    keeper_ = std::thread([this] { keep(); });
    return {};
}

template <typename Item, typename Receiver>
void Publisher<Item, Receiver>::send(std::span<const Item* const> items, Receiver& receiver) {
    const MutexLock lock(mutex_);
    if (stop_at_) {
        for (const Item* item : items) receiver.on_outcome(*item, stopped_unsent());
        return;
    }
    const auto jobs = under_way_.add(items, receiver);
    for (Job& job : jobs) {  // a job may be gone once it has ended, and all of them with the last
        if (!is_topic_name(job.item->topic)) {
            under_way_.end(job, bad_topic(job.item->topic));
        } else if (many_->fatal()) {
            under_way_.end(job, producer_replaced());
        } else if (!many_->reachable()) {
            under_way_.end(job, broker_unreachable(many_->trouble()));
        } else {
            produce(*many_, job);
        }
    }
}

template <typename Item, typename Receiver>
void Publisher<Item, Receiver>::stop(Duration patience) {
    {
        const MutexLock lock(mutex_);
        stop_at_ = stop_deadline(clock_.now(), patience, stop_at_);
        wake_.notify_all();
    }
    const MutexLock stopping(stop_mutex_);
    if (keeper_.joinable()) keeper_.join();
    const auto producers = take_producers();  // none is made or replaced any more
    while (!under_way_.wait_for_none(Duration::zero()) && left() > Duration::zero()) {
        for (const auto& producer : producers) {
            static_cast<void>(producer->flush(std::clamp(left(), Duration::zero(), kFlushSlice)));
        }
    }
    if (!under_way_.wait_for_none(Duration::zero())) {
        for (const auto& producer : producers) producer->purge();
        static_cast<void>(under_way_.wait_for_none(kPurgePatience));
    }
    for (const auto& producer : producers) producer->end();
    under_way_.end_all(stopped_under_way());
}

template <typename Item, typename Receiver>
Result<void> Publisher<Item, Receiver>::check(Duration deadline) {
    const auto until = clock_.now() + deadline;
    NullLog silent;
    // A producer of its own, so that its errors are about this attempt.
    TRY_ASSIGN(
        auto made,
        Producer::start(options_, Batching::many, silent, [](const Producer&, const rd_kafka_message_t&) {}, [] {}));
    Producer& producer = *made;
    auto reached_until = clock_.now();
    while (clock_.now() < until && clock_.now() - reached_until < kGiveUpAfter) {
        if (producer.ask(std::min(until - clock_.now(), kCheckSlice))) return {};
        if (producer.reachable()) reached_until = clock_.now();
    }
    const auto trouble = producer.trouble();
    return retryable(std::string(kBrokerUnreachable),
                     fmt::format("cannot reach Kafka at {}: {}", options_.brokers,
                                 trouble.empty() ? "nobody answered in time; are brokers and security.protocol "
                                                   "right?"
                                                 : trouble));
}

template <typename Item, typename Receiver>
Result<std::unique_ptr<Producer>> Publisher<Item, Receiver>::make_producer(Batching batching) {
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
template <typename Item, typename Receiver>
void Publisher<Item, Receiver>::take(const Producer& producer, const rd_kafka_message_t& report) {
    Job& job = *static_cast<Job*>(report._private);
    if (report.err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        return under_way_.end(job, delivered(job.item->topic, report.partition, report.offset));
    }
    const auto status = rd_kafka_message_status(&report);
    const bool whole_batch = report.err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE && !job.alone;
    if (whole_batch && status == RD_KAFKA_MSG_STATUS_NOT_PERSISTED) return send_alone(job);
    fail(producer, job, report.err, status);
}

/// The broker refused a batch as too large, which says nothing about this message: it is sent again alone.
template <typename Item, typename Receiver>
void Publisher<Item, Receiver>::send_alone(Job& job) {
    job.alone = true;
    const MutexLock lock(mutex_);
    if (stop_at_) return under_way_.end(job, stopped_unsent());
    if (!alone_) {
        auto made = make_producer(Batching::one_each);
        if (!made) return under_way_.end(job, producer_replaced());
        alone_ = std::move(*made);
        log_.warn("a batch was larger than Kafka takes; its messages are sent one by one",
                  {{"sink", options_.log_name}, {"topic", job.item->topic}, {"lower", "librdkafka: batch.size"}});
    }
    produce(*alone_, job);
}

template <typename Item, typename Receiver>
void Publisher<Item, Receiver>::produce(Producer& producer, Job& job) {
    const auto error = producer.produce(*job.item, &job);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) fail(producer, job, error, RD_KAFKA_MSG_STATUS_NOT_PERSISTED);
}

template <typename Item, typename Receiver>
void Publisher<Item, Receiver>::fail(const Producer& producer, Job& job, rd_kafka_resp_err_t error,
                                     rd_kafka_msg_status_t status) {
    const std::string trouble = producer.trouble();
    under_way_.end(job, outcome_of({.error = error,
                                    .status = status,
                                    .topic = job.item->topic,
                                    .body_bytes = body_bytes(*job.item),
                                    .bytes = size_of(*job.item),
                                    .timeout = options_.timeout,
                                    .unreachable = !producer.reachable(),
                                    .fatal = producer.fatal(),
                                    .trouble = trouble}));
}

template <typename Item, typename Receiver>
Duration Publisher<Item, Receiver>::left() {
    const MutexLock lock(mutex_);
    return *stop_at_ - clock_.now();
}

template <typename Item, typename Receiver>
std::vector<std::shared_ptr<Producer>> Publisher<Item, Receiver>::take_producers() {
    const MutexLock lock(mutex_);
    auto all = std::exchange(retired_, {});
    if (alone_) all.push_back(std::exchange(alone_, nullptr));
    if (many_) all.push_back(std::exchange(many_, nullptr));
    return all;
}

/// The keeper's thread: checks for the brokers while they are away, replaces producers that failed for good.
template <typename Item, typename Receiver>
void Publisher<Item, Receiver>::keep() {
    MutexLock lock(mutex_);
    while (!stop_at_) {
        wake_.wait(mutex_, [this]() REQUIRES(mutex_) { return stop_at_ || look_; });
        while (!stop_at_ && std::exchange(look_, false)) {
            const auto many = many_;
            const auto alone = alone_;
            lock.unlock();
            const bool settled = look_after(many, alone);
            lock.lock();
            if (!settled) look_ = true;
            if (look_) {
                wake_.wait_for(mutex_, kLookPause, [this]() REQUIRES(mutex_) { return stop_at_.has_value(); });
            }
        }
    }
}

/// False while the brokers are away or a producer still has to be replaced or dropped.
template <typename Item, typename Receiver>
bool Publisher<Item, Receiver>::look_after(const std::shared_ptr<Producer>& many,
                                           const std::shared_ptr<Producer>& alone) {
    bool settled = true;
    if (many->fatal()) settled = replace(&Publisher::many_, Batching::many) && settled;
    if (alone && alone->fatal()) settled = replace(&Publisher::alone_, Batching::one_each) && settled;
    settled = drop_retired() && settled;
    if (many->fatal()) return settled;
    const bool was_reachable = many->reachable();
    const bool reachable = many->ask(kProbeDeadline);
    many->set_reachable(reachable);
    if (!was_reachable && reachable) log_.info("Kafka can be reached again", {{"sink", options_.log_name}});
    if (was_reachable && !reachable) log_.warn("Kafka does not answer", {{"sink", options_.log_name}});
    return settled && reachable;
}

/// Its messages in flight still get their reports. Replaces at most one producer per kReplacePause.
template <typename Item, typename Receiver>
bool Publisher<Item, Receiver>::replace(std::shared_ptr<Producer> Publisher::* place, Batching batching) {
    if (replaced_at_ && clock_.now() - *replaced_at_ < kReplacePause) return false;
    replaced_at_ = clock_.now();
    auto made = make_producer(batching);
    if (!made) {
        log_.error("cannot replace a Kafka producer", {{"sink", options_.log_name}, {"error", made.error().message}});
        return false;
    }
    log_.warn("a Kafka producer was replaced", {{"sink", options_.log_name}});
    const MutexLock lock(mutex_);
    retired_.push_back(std::exchange(this->*place, std::move(*made)));
    return true;
}

/// Drops replaced producers that have nothing under way. Whether none is left.
template <typename Item, typename Receiver>
bool Publisher<Item, Receiver>::drop_retired() {
    std::vector<std::shared_ptr<Producer>> waiting;
    {
        const MutexLock lock(mutex_);
        waiting = retired_;
    }
    for (auto& producer : waiting) {
        if (!producer->flush(Duration::zero())) continue;
        const MutexLock lock(mutex_);
        std::erase(retired_, producer);
    }
    const MutexLock lock(mutex_);
    return retired_.empty();
}

template class Publisher<Message, OutcomeReceiver>;
template class Publisher<Record, RecordReceiver>;

}  // namespace deliverd::sink
