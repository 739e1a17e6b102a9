// One librdkafka producer: its settings, and the thread that handles its events (delivery reports, errors, log lines).
#pragma once

#include <librdkafka/rdkafka.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/handle.h"
#include "base/log.h"
#include "base/mutex.h"
#include "message/record.h"
#include "sink/kafka/client.h"
#include "sink/kafka/kafka_options.h"

namespace deliverd::sink {

/// How a producer fills its requests.
enum class Batching {
    many,     // as configured
    one_each  // each message alone in its batch, so that a refusal is about this message
};

/// Refuses what check_kafka_options() refuses, except what librdkafka finds only when it starts.
[[nodiscard]] Result<Conf> make_conf(const KafkaSinkOptions& options, Batching batching);

class Producer {
public:
    /// Called on the producer's thread, once for each message that produce() took.
    using OnReport = std::function<void(const Producer& producer, const rd_kafka_message_t& report)>;
    /// Called on the producer's thread when reachable() turned false, fatal() true, or a message timed out.
    using OnTrouble = std::function<void()>;

    /// Starts threads; connects by itself. Permanent error where librdkafka refuses the settings.
    static Result<std::unique_ptr<Producer>> start(const KafkaSinkOptions& options, Batching batching, Log& log,
                                                   OnReport on_report, OnTrouble on_trouble);
    /// Implies end().
    ~Producer() { end(); }

    /// Copies the message; its report returns `opaque`. Never blocks. One caller at a time. A message that is refused
    /// here gets no report.
    [[nodiscard]] rd_kafka_resp_err_t produce(const Message& message, void* opaque);
    /// The same for a record: a null key, value or header stays null. Its key selects the partition.
    [[nodiscard]] rd_kafka_resp_err_t produce(const Record& record, void* opaque);

    /// Whether any broker answers a question about its cluster; blocks for at most `deadline`.
    [[nodiscard]] bool ask(Duration deadline) { return any_broker_answers(kafka_.get(), deadline); }

    [[nodiscard]] bool reachable() const { return reachable_.load(std::memory_order_relaxed); }
    void set_reachable(bool reachable) { reachable_.store(reachable, std::memory_order_relaxed); }
    /// It failed permanently, sends nothing any more and has to be replaced.
    [[nodiscard]] bool fatal() const { return fatal_.load(std::memory_order_relaxed); }
    /// The last error of a connection; empty when there was none.
    [[nodiscard]] std::string trouble() const;

    /// Sends without lingering, for at most `patience`. Whether every message has its report.
    [[nodiscard]] bool flush(Duration patience) {
        return rd_kafka_flush(kafka_.get(), wait_ms(patience)) == RD_KAFKA_RESP_ERR_NO_ERROR;
    }
    /// Ends every message without a report; the reports follow.
    void purge() { rd_kafka_purge(kafka_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT); }
    /// No report comes after it returns. Idempotent; not from the producer's thread.
    void end();

private:
    using Topic = Handle<rd_kafka_topic_t, rd_kafka_topic_destroy>;
    using Headers = Handle<rd_kafka_headers_t, rd_kafka_headers_destroy>;
    using Bytes = std::optional<std::string_view>;

    Producer(const KafkaSinkOptions& options, Log& log, rd_kafka_t* kafka, OnReport on_report, OnTrouble on_trouble);
    void run();
    void take_reports(rd_kafka_event_t* event);
    void take_error(rd_kafka_event_t* event);
    void take_log(rd_kafka_event_t* event);
    void write(LogLevel level, std::string_view facility, std::string_view text);
    [[nodiscard]] rd_kafka_resp_err_t hand_over(const std::string& topic, Bytes key, Bytes value, Headers headers,
                                                void* opaque);
    [[nodiscard]] rd_kafka_topic_t* topic_of(const std::string& name);

    const EventAttributesOptions attributes_;
    const OnReport on_report_;
    const OnTrouble on_trouble_;
    const SystemClock clock_;

    // Used by the producer's thread only.
    Secrets secrets_;
    LogGate log_;
    Login login_;

    std::atomic<bool> reachable_ = true;  // until a broker says otherwise
    std::atomic<bool> fatal_ = false;
    std::atomic<bool> ending_ = false;
    mutable Mutex trouble_mutex_;
    std::string trouble_ GUARDED_BY(trouble_mutex_);

    Handle<rd_kafka_t, rd_kafka_destroy> kafka_;
    Handle<rd_kafka_queue_t, rd_kafka_queue_destroy> queue_;
    std::map<std::string, Topic> topics_;  // at most kMaxTopics
    std::thread thread_;
};

}  // namespace deliverd::sink
