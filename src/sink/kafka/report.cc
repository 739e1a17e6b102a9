#include "sink/kafka/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "sink/sink.h"
#include "sink/thread_sink.h"

namespace deliverd::sink {

namespace {

constexpr std::size_t kMaxTopicBytes = 249;

Outcome timed_out(const Report& report, bool maybe) {
    const auto seconds = to_seconds(report.timeout);
    if (maybe) {
        return failed_attempt(
            OutcomeKind::ambiguous, "KAFKA_TIMEOUT",
            fmt::format("sent to topic {}, and no broker confirmed it within {} s", report.topic, seconds));
    }
    if (report.unreachable) return broker_unreachable(report.trouble);
    // The message itself cannot be the cause: it was never sent.
    return not_attempted("KAFKA_TIMEOUT",
                         fmt::format("not written to topic {} within {} s: its partition has no leader, has too few "
                                     "replicas in sync (min.insync.replicas), or its broker is too slow",
                                     report.topic, seconds));
}

Outcome refused(const Report& report, OutcomeKind kind) {
    return failed_attempt(
        kind, "BROKER_REFUSED",
        fmt::format("topic {}: the broker refused it: {}", report.topic, rd_kafka_err2str(report.error)));
}

/// The broker answers but cannot store anything there now. librdkafka retries by itself until the message times out;
/// these errors are reported where its number of retries was set lower.
constexpr std::array kDegraded{
    RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,       RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,      RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
    RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE,      RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE,
    RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,       RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
    RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION,         RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
    RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE, RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
    RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH,       RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH,
};

Outcome of_known_absence(const Report& report) {
    switch (report.error) {
        case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
        case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
        case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
            // Not the broker's state, so that it counts: an event for a topic that nobody creates must not wait for
            // ever.
            return failed_attempt(
                OutcomeKind::retryable, kUnknownTopic,
                fmt::format("Kafka has no topic {}; deliverd does not create topics: create it, or let the "
                            "broker do so (auto.create.topics.enable)",
                            report.topic));
        case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
            return bad_topic(report.topic);
        case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
        case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
            return failed_attempt(
                OutcomeKind::permanent, "MESSAGE_TOO_LARGE",
                fmt::format("topic {}: a body of {} bytes, about {} with key and headers, is more than is allowed "
                            "(topic: max.message.bytes, broker and librdkafka: message.max.bytes)",
                            report.topic, report.body_bytes, report.bytes));
        case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
            return failed_attempt(
                OutcomeKind::retryable, kNotAuthorized,
                fmt::format("topic {}: the broker does not allow this user to write: grant it (Write on the "
                            "topic; IdempotentWrite on the cluster before Kafka 3.0)",
                            report.topic));
        case RD_KAFKA_RESP_ERR_INVALID_RECORD:
        case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
            return refused(report, OutcomeKind::permanent);
        case RD_KAFKA_RESP_ERR__QUEUE_FULL:
            return not_attempted(kQueueFull, "librdkafka's queue is full (queue.buffering.max.messages, …max.kbytes)");
        case RD_KAFKA_RESP_ERR__FATAL:
            return producer_replaced();
        default:
            if (std::ranges::find(kDegraded, report.error) != kDegraded.end()) {
                return not_attempted("BROKER_DEGRADED",
                                     fmt::format("topic {}: the broker cannot store messages there at the moment: {}",
                                                 report.topic, rd_kafka_err2str(report.error)));
            }
            // Negative codes are librdkafka's own, positive ones a broker's.
            if (report.error > 0) return refused(report, OutcomeKind::retryable);
            return failed_attempt(
                OutcomeKind::retryable, "KAFKA_ERROR",
                fmt::format("topic {}: {}; nothing was sent", report.topic, rd_kafka_err2str(report.error)));
    }
}

}  // namespace

Outcome outcome_of(const Report& report) {
    const bool maybe = report.status != RD_KAFKA_MSG_STATUS_NOT_PERSISTED;
    switch (report.error) {
        case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
        case RD_KAFKA_RESP_ERR__TIMED_OUT:
            return timed_out(report, maybe);
        // Purged by a stop of the sink.
        case RD_KAFKA_RESP_ERR__PURGE_QUEUE:
        case RD_KAFKA_RESP_ERR__PURGE_INFLIGHT:
            // librdkafka purges its queue by itself when it fails permanently.
            if (report.fatal && !maybe) return producer_replaced();
            return maybe || report.error == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT ? stopped_under_way() : stopped_unsent();
        default:
            break;
    }
    // What the error says does not matter here: librdkafka's status decides, and only NOT_PERSISTED is certain.
    if (!maybe) return of_known_absence(report);
    return failed_attempt(
        OutcomeKind::ambiguous, "KAFKA_ERROR",
        fmt::format("topic {}: {}; the broker may have it", report.topic, rd_kafka_err2str(report.error)));
}

Outcome delivered(std::string_view topic, std::int32_t partition, std::int64_t offset) {
    return {.kind = OutcomeKind::delivered, .receipt = fmt::format("{}[{}]@{}", topic, partition, offset)};
}

Outcome broker_unreachable(std::string_view trouble) {
    return not_attempted(kBrokerUnreachable,
                         fmt::format("no Kafka broker can be reached{}{}", trouble.empty() ? "" : ": ", trouble));
}

Outcome producer_replaced() {
    return not_attempted("KAFKA_FATAL", "the Kafka producer failed permanently and is replaced; nothing was sent");
}

bool is_topic_name(std::string_view name) {
    const auto allowed = [](char c) { return is_alphanumeric(c) || c == '.' || c == '_' || c == '-'; };
    return !name.empty() && name.size() <= kMaxTopicBytes && name != "." && name != ".." &&
           std::ranges::all_of(name, allowed);
}

Outcome bad_topic(std::string_view name) {
    return failed_attempt(
        OutcomeKind::permanent, "BAD_TOPIC",
        fmt::format("'{}' is not a topic's name: Kafka accepts up to {} letters, digits, '.', '_' and '-'",
                    shorten(one_line(name), 128), kMaxTopicBytes));
}

}  // namespace deliverd::sink
