#include "sink/kafka/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "sink/sink.h"

namespace deliverd::sink {

namespace {

constexpr std::size_t kMaxTopicBytes = 249;

Outcome ended(OutcomeKind kind, std::string_view code, std::string_view detail) {
    Outcome outcome;
    outcome.kind = kind;
    outcome.code = code;
    outcome.detail = shorten(one_line(detail), kMaxDetailBytes);
    return outcome;
}

Outcome not_tried(std::string_view code, std::string_view detail) {
    Outcome outcome = ended(OutcomeKind::retryable, code, detail);
    outcome.not_attempted = true;
    return outcome;
}

Outcome timed_out(const Report& report, bool maybe) {
    const auto seconds = to_seconds(report.timeout);
    if (maybe) {
        return ended(OutcomeKind::ambiguous, kKafkaTimeout,
                     fmt::format("sent to topic {}, and no broker confirmed it within {} s", report.topic, seconds));
    }
    if (report.unreachable) return broker_unreachable(report.trouble);
    return ended(OutcomeKind::retryable, kKafkaTimeout,
                 fmt::format("could not be sent to topic {} within {} s: its leader did not take it in time",
                             report.topic, seconds));
}

Outcome refused(const Report& report, std::string_view why) {
    return ended(OutcomeKind::retryable, kBrokerRefused,
                 fmt::format("topic {}: the broker refused it: {}", report.topic, why));
}

Outcome stopped(bool maybe) {
    return maybe ? ended(OutcomeKind::ambiguous, kStopped, "the sink was stopped before the broker confirmed it")
                 : ended(OutcomeKind::retryable, kStopped, "the sink was stopped; nothing was sent");
}

Outcome of_known_absence(const Report& report) {
    switch (report.error) {
        case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
        case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
        case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
            return ended(OutcomeKind::retryable, kUnknownTopic,
                         fmt::format("Kafka has no topic {}; deliverd does not create topics: create it, or let the "
                                     "broker do so (auto.create.topics.enable)",
                                     report.topic));
        case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
            return bad_topic(report.topic);
        case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
        case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
            return ended(OutcomeKind::permanent, kMessageTooLarge,
                         fmt::format("topic {}: a body of {} bytes, about {} with key and headers, is more than is "
                                     "taken (topic: max.message.bytes, broker and librdkafka: message.max.bytes)",
                                     report.topic, report.body_bytes, report.bytes));
        case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
            return ended(OutcomeKind::retryable, kNotAuthorized,
                         fmt::format("topic {}: the broker does not allow this user to write: grant it (Write on the "
                                     "topic; IdempotentWrite on the cluster before Kafka 3.0)",
                                     report.topic));
        case RD_KAFKA_RESP_ERR_INVALID_RECORD:
        case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
            return ended(
                OutcomeKind::permanent, kBrokerRefused,
                fmt::format("topic {}: the broker refused it: {}", report.topic, rd_kafka_err2str(report.error)));
        case RD_KAFKA_RESP_ERR__QUEUE_FULL:
            return not_tried(kQueueFull, "librdkafka's queue is full (queue.buffering.max.messages, …max.kbytes)");
        case RD_KAFKA_RESP_ERR__FATAL:
            return producer_replaced();
        default:
            return report.error > 0 ? refused(report, rd_kafka_err2str(report.error))
                                    : ended(OutcomeKind::retryable, kKafkaError,
                                            fmt::format("topic {}: {}; nothing was sent", report.topic,
                                                        rd_kafka_err2str(report.error)));
    }
}

}  // namespace

Outcome outcome_of(const Report& report) {
    const bool maybe = report.status != RD_KAFKA_MSG_STATUS_NOT_PERSISTED;
    switch (report.error) {
        case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
        case RD_KAFKA_RESP_ERR__TIMED_OUT:
            return timed_out(report, maybe);
        case RD_KAFKA_RESP_ERR__PURGE_QUEUE:
        case RD_KAFKA_RESP_ERR__PURGE_INFLIGHT:
            // librdkafka clears its queue by itself when it gives up.
            if (report.fatal && !maybe) return producer_replaced();
            return stopped(maybe || report.error == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT);
        default:
            break;
    }
    if (!maybe) return of_known_absence(report);
    return ended(OutcomeKind::ambiguous, kKafkaError,
                 fmt::format("topic {}: {}; the broker may have it", report.topic, rd_kafka_err2str(report.error)));
}

Outcome delivered(std::string_view topic, std::int32_t partition, std::int64_t offset) {
    std::array<char, 48> place{};
    const auto end = fmt::format_to_n(place.data(), place.size(), "[{}]@{}", partition, offset);
    std::string receipt;
    receipt.reserve(topic.size() + end.size);
    receipt.append(topic).append(place.data(), end.size);
    Outcome outcome;
    outcome.kind = OutcomeKind::delivered;
    outcome.receipt = std::move(receipt);
    return outcome;
}

Outcome broker_unreachable(std::string_view trouble) {
    return not_tried(kBrokerUnreachable,
                     fmt::format("no Kafka broker can be reached{}{}", trouble.empty() ? "" : ": ", trouble));
}

Outcome producer_replaced() {
    return not_tried(kKafkaFatal,
                     "the Kafka producer met an error it cannot go on from and is replaced; nothing was sent");
}

bool is_topic_name(std::string_view name) {
    const auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
               c == '-';
    };
    return !name.empty() && name.size() <= kMaxTopicBytes && name != "." && name != ".." &&
           std::ranges::all_of(name, allowed);
}

Outcome bad_topic(std::string_view name) {
    return ended(OutcomeKind::permanent, kBadTopic,
                 fmt::format("'{}' is no name for a topic: Kafka takes up to {} letters, digits, '.', '_' and '-'",
                             shorten(one_line(name), 128), kMaxTopicBytes));
}

}  // namespace deliverd::sink
