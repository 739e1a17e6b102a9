// Sends messages or records to Kafka and reports an outcome for each. The kafka sink is this class behind the port
// Sink; the retries of dead letters are its other user. kafka_sink.h describes the outcomes.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "message/record.h"
#include "sink/kafka/kafka_options.h"
#include "sink/kafka/producer.h"
#include "sink/kafka/under_way.h"
#include "sink/sink.h"

namespace deliverd::sink {

/// Receives the outcomes of records. Called on the publisher's threads: must be quick, must not call back into it.
class RecordReceiver {
public:
    virtual ~RecordReceiver() = default;
    virtual void on_outcome(const Record& record, Outcome outcome) = 0;
};

/// Instantiated for Message with OutcomeReceiver and for Record with RecordReceiver.
template <typename Item, typename Receiver>
class Publisher {
public:
    Publisher(KafkaSinkOptions options, Log& log);
    /// Implies stop() with no patience.
    ~Publisher();
    Publisher(const Publisher&) = delete;
    Publisher& operator=(const Publisher&) = delete;

    /// Call it first and once. Permanent error where librdkafka refuses the settings.
    [[nodiscard]] Result<void> start();

    /// As Sink::send(), but thread-safe, and after stop() every outcome is retryable (STOPPED).
    void send(std::span<const Item* const> items, Receiver& receiver);

    /// As Sink::stop() and Sink::check().
    void stop(Duration patience);
    [[nodiscard]] Result<void> check(Duration deadline);

private:
    using Jobs = UnderWay<Item, Receiver>;
    using Job = typename Jobs::Job;

    [[nodiscard]] Result<std::unique_ptr<Producer>> make_producer(Batching batching);
    void take(const Producer& producer, const rd_kafka_message_t& report);
    void send_alone(Job& job) EXCLUDES(mutex_);
    void produce(Producer& producer, Job& job);
    void fail(const Producer& producer, Job& job, rd_kafka_resp_err_t error, rd_kafka_msg_status_t status);
    [[nodiscard]] Duration left();
    [[nodiscard]] std::vector<std::shared_ptr<Producer>> take_producers();
    void keep();
    bool look_after(const std::shared_ptr<Producer>& many, const std::shared_ptr<Producer>& alone);
    bool replace(std::shared_ptr<Producer> Publisher::* place, Batching batching) EXCLUDES(mutex_);
    bool drop_retired();

    const KafkaSinkOptions options_;
    Log& log_;
    const SystemClock clock_;
    Jobs under_way_;

    Mutex mutex_;
    Condition wake_;
    std::optional<Instant> stop_at_ GUARDED_BY(mutex_);  // set once stop() was called
    bool look_ GUARDED_BY(mutex_) = false;               // the keeper has work
    std::shared_ptr<Producer> many_ GUARDED_BY(mutex_);
    std::shared_ptr<Producer> alone_ GUARDED_BY(mutex_);  // made when a batch was refused for its size
    // Failed for good, and still have messages without a report.
    std::vector<std::shared_ptr<Producer>> retired_ GUARDED_BY(mutex_);

    std::optional<Instant> replaced_at_;  // used by the keeper only
    Mutex stop_mutex_;
    std::thread keeper_;
};

extern template class Publisher<Message, OutcomeReceiver>;
extern template class Publisher<Record, RecordReceiver>;

}  // namespace deliverd::sink
