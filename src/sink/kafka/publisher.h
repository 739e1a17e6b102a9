// Sends things to Kafka and says of each how that ended: the whole of the kafka sink but for the port, and of whoever
// else publishes. What is true of its outcomes stands in kafka_sink.h.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "message/record.h"
#include "sink/kafka/kafka_options.h"
#include "sink/kafka/producer.h"
#include "sink/kafka/under_way.h"
#include "sink/sink.h"

namespace deliverd::sink {

/// Takes outcomes of records. Called from the publisher's threads: must be quick, must not call back into it.
class RecordReceiver {
public:
    virtual ~RecordReceiver() = default;
    virtual void on_outcome(const Record& record, Outcome outcome) = 0;
};

/// There are two: of Message and OutcomeReceiver, and of Record and RecordReceiver.
template <typename Item, typename Receiver>
class Publisher {
public:
    Publisher(KafkaSinkOptions options, Log& log);
    /// Implies stop() with no patience.
    ~Publisher();
    Publisher(const Publisher&) = delete;
    Publisher& operator=(const Publisher&) = delete;

    /// Before anything else, once. Permanent error where librdkafka refuses the settings.
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
    void send_alone(Job& job);
    void produce(Producer& producer, Job& job);
    void fail(const Producer& producer, Job& job, rd_kafka_resp_err_t error, rd_kafka_msg_status_t status);
    [[nodiscard]] Duration left();
    [[nodiscard]] std::vector<std::shared_ptr<Producer>> take_producers();
    void keep();
    bool look_after(const std::shared_ptr<Producer>& many, const std::shared_ptr<Producer>& alone);
    bool replace(std::shared_ptr<Producer>& place, Batching batching);
    bool drop_retired();

    const KafkaSinkOptions options_;
    Log& log_;
    const SystemClock clock_;
    Jobs under_way_;

    std::mutex mutex_;
    std::condition_variable wake_;
    std::optional<Instant> stop_at_;  // set once stop() was called
    bool look_ = false;               // the keeper has something to do
    std::shared_ptr<Producer> many_;
    std::shared_ptr<Producer> alone_;                 // made when a batch was refused for its size
    std::vector<std::shared_ptr<Producer>> retired_;  // gave up, and still have messages without a report

    std::optional<Instant> replaced_at_;  // the keeper's
    std::mutex stop_mutex_;
    std::thread keeper_;
};

extern template class Publisher<Message, OutcomeReceiver>;
extern template class Publisher<Record, RecordReceiver>;

}  // namespace deliverd::sink
