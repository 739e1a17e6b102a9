// Produces each message to Kafka (librdkafka's C API, idempotent, acks=all).
//
// Topic = Message::topic, key = Message::key, value = Message::body, headers = plain_attributes() or, with
// EventFormat::cloudevents, cloudevents_attributes() with prefix `ce_` and `content-type`. Topics are made by the
// broker or not at all.
//
// Every delivery report becomes one outcome, its receipt "topic[partition]@offset": docs/delivery.md has the table.
// Ambiguous is what was sent and neither confirmed nor refused; what timed out unsent is retryable. While no broker can
// be reached nothing is tried: outcomes are retryable and not_attempted (BROKER_UNREACHABLE), and the sink looks for
// the brokers by itself. A batch refused for its size is sent again message by message, each with a timeout of its own.
//
// Threads: librdkafka's, one that takes its reports and one that looks after it; send() copies the messages into
// librdkafka's queue and never waits for the network. stop() also waits for librdkafka's threads to end: as long as a
// name being resolved, at worst.
#pragma once

#include <memory>

#include "base/log.h"
#include "message/record.h"
#include "sink/kafka/kafka_options.h"
#include "sink/sink.h"

namespace deliverd::sink {

/// What make_kafka_sink() refuses, for a configuration's check: no brokers, a setting librdkafka does not know or whose
/// value it refuses, or one that would break the sink's promises (acks, enable.idempotence, message.timeout.ms, …).
/// Never repeats a value. Connects to nothing.
[[nodiscard]] Result<void> check_kafka_options(const KafkaSinkOptions& options);

[[nodiscard]] Result<std::unique_ptr<Sink>> make_kafka_sink(KafkaSinkOptions options, Log& log);

/// Receives the outcomes of records. Called on the publisher's threads: must be quick, must not call back into it.
class RecordReceiver {
public:
    virtual ~RecordReceiver() = default;
    virtual void on_outcome(const Record& record, Outcome outcome) = 0;
};

/// As the sink, for records: the same code, settings and outcomes. send() is thread-safe. Retries of dead letters use
/// it.
class RecordPublisher {
public:
    virtual ~RecordPublisher() = default;
    virtual void send(std::span<const Record* const> records, RecordReceiver& receiver) = 0;
    virtual void stop(Duration patience) = 0;
    [[nodiscard]] virtual Result<void> check(Duration deadline) = 0;
};

/// As make_kafka_sink().
[[nodiscard]] Result<std::unique_ptr<RecordPublisher>> make_record_publisher(KafkaSinkOptions options, Log& log);

}  // namespace deliverd::sink
