#include "deadletter/failure_headers.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace deliverd::deadletter {
namespace {

constexpr std::string_view kConnect = "kafka-connect";
constexpr std::string_view kSpring = "spring-kafka";
constexpr std::string_view kSpringStream = "spring-cloud-stream";
constexpr std::string_view kStreams = "kafka-streams";
constexpr std::string_view kRules = "confluent-rules";

// Headers that people write by hand come first: people who set `original_topic` or `error` mean it.
constexpr auto kHeaders = std::to_array<FailureHeader>({
    {kPlainFamily, "original_topic", Meaning::original_topic},
    {kPlainFamily, "original_partition", Meaning::original_partition},
    {kPlainFamily, "original_offset", Meaning::original_offset},
    {kPlainFamily, "original_timestamp", Meaning::detail},
    {kPlainFamily, "error", Meaning::error_message},
    {kPlainFamily, "error_message", Meaning::error_message},
    {kPlainFamily, "error_class", Meaning::error_class},
    {kPlainFamily, "stack_trace", Meaning::stack_trace},
    {kPlainFamily, "failed_at", Meaning::detail},

    // errors.deadletterqueue.context.headers.enable; does not overwrite an existing header.
    {kConnect, "__connect.errors.topic", Meaning::original_topic},
    {kConnect, "__connect.errors.partition", Meaning::original_partition},
    {kConnect, "__connect.errors.offset", Meaning::original_offset},
    {kConnect, "__connect.errors.exception.message", Meaning::error_message},
    {kConnect, "__connect.errors.exception.class.name", Meaning::error_class},
    {kConnect, "__connect.errors.exception.stacktrace", Meaning::stack_trace},
    {kConnect, "__connect.errors.connector.name", Meaning::producer},
    {kConnect, "__connect.errors.task.id", Meaning::detail},
    {kConnect, "__connect.errors.stage", Meaning::detail},
    {kConnect, "__connect.errors.class.name", Meaning::detail},

    // DeadLetterPublishingRecoverer: `kafka_dlt-…`; with @RetryableTopic `kafka_…` and `retry_topic-…` (a record that
    // kept its count of attempts would go straight to the dead-letter topic again). Appends by default.
    {kSpring, "kafka_dlt-original-topic", Meaning::original_topic},
    {kSpring, "kafka_original-topic", Meaning::original_topic},
    {kSpring, "kafka_dlt-original-partition", Meaning::original_partition, Form::int32_be},
    {kSpring, "kafka_original-partition", Meaning::original_partition, Form::int32_be},
    {kSpring, "kafka_dlt-original-offset", Meaning::original_offset, Form::int64_be},
    {kSpring, "kafka_original-offset", Meaning::original_offset, Form::int64_be},
    {kSpring, "kafka_dlt-exception-message", Meaning::error_message},
    {kSpring, "kafka_exception-message", Meaning::error_message},
    {kSpring, "kafka_dlt-key-exception-message", Meaning::error_message},
    {kSpring, "kafka_key-exception-message", Meaning::error_message},
    {kSpring, "kafka_dlt-exception-fqcn", Meaning::error_class},
    {kSpring, "kafka_exception-fqcn", Meaning::error_class},
    {kSpring, kSpringCause, Meaning::error_class},
    {kSpring, kSpringRetryCause, Meaning::error_class},
    {kSpring, "kafka_dlt-key-exception-fqcn", Meaning::error_class},
    {kSpring, "kafka_key-exception-fqcn", Meaning::error_class},
    {kSpring, "kafka_dlt-exception-stacktrace", Meaning::stack_trace},
    {kSpring, "kafka_exception-stacktrace", Meaning::stack_trace},
    {kSpring, "kafka_dlt-key-exception-stacktrace", Meaning::stack_trace},
    {kSpring, "kafka_key-exception-stacktrace", Meaning::stack_trace},
    {kSpring, "kafka_dlt-original-consumer-group", Meaning::producer},
    {kSpring, "kafka_dlt-original-timestamp", Meaning::detail, Form::int64_be},
    {kSpring, "kafka_original-timestamp", Meaning::detail, Form::int64_be},
    {kSpring, "kafka_dlt-original-timestamp-type", Meaning::detail},
    {kSpring, "kafka_original-timestamp-type", Meaning::detail},
    {kSpring, "retry_topic-attempts", Meaning::detail, Form::int32_be},
    {kSpring, "retry_topic-backoff-timestamp", Meaning::detail, Form::bytes},
    {kSpring, "retry_topic-original-timestamp", Meaning::detail, Form::bytes},
    {kSpring, "springDeserializerExceptionKey", Meaning::detail, Form::bytes},
    {kSpring, "springDeserializerExceptionValue", Meaning::detail, Form::bytes},

    // Its Kafka binder with enableDlq.
    {kSpringStream, "x-original-topic", Meaning::original_topic},
    {kSpringStream, "x-original-partition", Meaning::original_partition, Form::int32_be},
    {kSpringStream, "x-original-offset", Meaning::original_offset, Form::int64_be},
    {kSpringStream, "x-exception-message", Meaning::error_message},
    {kSpringStream, "x-exception-fqcn", Meaning::error_class},
    {kSpringStream, "x-exception-stacktrace", Meaning::stack_trace},
    {kSpringStream, "x-original-timestamp", Meaning::detail, Form::int64_be},
    {kSpringStream, "x-original-timestamp-type", Meaning::detail},

    // KIP-1034.
    {kStreams, "__streams.errors.topic", Meaning::original_topic},
    {kStreams, "__streams.errors.partition", Meaning::original_partition},
    {kStreams, "__streams.errors.offset", Meaning::original_offset},
    {kStreams, "__streams.errors.message", Meaning::error_message},
    {kStreams, "__streams.errors.exception", Meaning::error_class, Form::exception},
    {kStreams, "__streams.errors.stacktrace", Meaning::stack_trace},

    // KIP-1191: written by the broker.
    {kShareGroupFamily, "__dlq.errors.topic", Meaning::original_topic},
    {kShareGroupFamily, "__dlq.errors.partition", Meaning::original_partition},
    {kShareGroupFamily, "__dlq.errors.offset", Meaning::original_offset},
    {kShareGroupFamily, "__dlq.errors.message", Meaning::error_message},
    {kShareGroupFamily, "__dlq.errors.group", Meaning::producer},
    {kShareGroupFamily, "__dlq.errors.delivery.count", Meaning::detail},

    // Quarkus and others.
    {kSmallRyeFamily, "dead-letter-topic", Meaning::original_topic},
    {kSmallRyeFamily, "dead-letter-partition", Meaning::original_partition},
    {kSmallRyeFamily, "dead-letter-offset", Meaning::original_offset},
    {kSmallRyeFamily, "dead-letter-reason", Meaning::error_message},
    {kSmallRyeFamily, "dead-letter-cause", Meaning::detail},
    {kSmallRyeFamily, "dead-letter-exception-class-name", Meaning::error_class},
    {kSmallRyeFamily, "dead-letter-cause-class-name", Meaning::detail},
    {kSmallRyeFamily, "deserialization-failure-reason", Meaning::detail},
    {kSmallRyeFamily, "deserialization-failure-cause", Meaning::detail},
    {kSmallRyeFamily, kUnreadableIsKey, Meaning::detail},
    {kSmallRyeFamily, "deserialization-failure-topic", Meaning::detail},
    {kSmallRyeFamily, kUnreadableBytes, Meaning::detail, Form::bytes},
    {kSmallRyeFamily, "deserialization-failure-deserializer", Meaning::detail},

    // The DLQ action of data contracts, in Confluent's Java and Python clients.
    {kRules, "__rule.topic", Meaning::original_topic},
    {kRules, "__rule.exception", Meaning::error_message},
    {kRules, "__rule.name", Meaning::producer},
    {kRules, "__rule.mode", Meaning::detail},
    {kRules, "__rule.subject", Meaning::detail},

    // Confluent's own sink connectors (HTTP and others); the error itself is in `error_message`.
    {kReporterFamily, "input_record_topic", Meaning::original_topic},
    {kReporterFamily, "input_record_partition", Meaning::original_partition},
    {kReporterFamily, "input_record_offset", Meaning::original_offset},
    {kReporterFamily, "input_record_timestamp", Meaning::detail},
});

constexpr std::string_view name_at(std::size_t index) {
    return kHeaders[index].name;
}

/// Sorted: every header of every record that is read is looked up.
constexpr auto kByName = [] {
    std::array<std::size_t, kHeaders.size()> order{};
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, {}, name_at);
    return order;
}();

}  // namespace

std::string_view to_string(Meaning meaning) noexcept {
    constexpr auto kWords =
        std::to_array<std::string_view>({"original topic", "original partition", "original offset", "error message",
                                         "error class", "stack trace", "producer", "detail"});
    return kWords.at(static_cast<std::size_t>(meaning));
}

std::string_view to_string(Form form) noexcept {
    constexpr auto kWords = std::to_array<std::string_view>(
        {"text", "4-byte big-endian integer", "8-byte big-endian integer", "text, class and message", "bytes"});
    return kWords.at(static_cast<std::size_t>(form));
}

std::span<const FailureHeader> failure_headers() noexcept {
    return kHeaders;
}

const FailureHeader* failure_header(std::string_view name) noexcept {
    const auto at = std::ranges::lower_bound(kByName, name, {}, name_at);
    return at != kByName.end() && name_at(*at) == name ? &kHeaders.at(*at) : nullptr;
}

}  // namespace deliverd::deadletter
