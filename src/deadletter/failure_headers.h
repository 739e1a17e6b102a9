// The headers by which producers of dead letters say where a record came from and why it failed: one table, from which
// provenance is read, replays are cleaned, and docs/dead-letters.md is checked. Pure.
//
// Names are listed one by one, not by prefix. They are removed before a record is sent back, and only what is known to
// be about the failure may be removed.
#pragma once

#include <span>
#include <string_view>

namespace deliverd::deadletter {

/// What a header says.
enum class Meaning {
    original_topic,
    original_partition,
    original_offset,
    error_message,
    error_class,
    stack_trace,
    producer,  // who gave up: consumer group, connector
    detail,    // not shown; removed when the record is sent back
};

/// How its value is written.
enum class Form {
    text,       // UTF-8; numbers in decimal
    int32_be,   // 4 bytes, big endian
    int64_be,   // 8 bytes, big endian
    exception,  // text, "class: message"
    bytes,      // anything
};

struct FailureHeader {
    std::string_view family;
    std::string_view name;
    Meaning meaning;
    Form form = Form::text;
};

[[nodiscard]] std::string_view to_string(Meaning meaning) noexcept;
[[nodiscard]] std::string_view to_string(Form form) noexcept;

/// All of them, in the order in which they are consulted: family by family, and in that order within a family.
[[nodiscard]] std::span<const FailureHeader> failure_headers() noexcept;

/// The entry of that name in failure_headers(); null when such a header is not about a failure. Exactly the headers
/// with an entry are removed when a record is sent back.
[[nodiscard]] const FailureHeader* failure_header(std::string_view name) noexcept;

// Families that need a rule of their own.
inline constexpr std::string_view kPlainFamily = "plain";
inline constexpr std::string_view kSmallRyeFamily = "smallrye";             // puts the newest of repeated headers first
inline constexpr std::string_view kReporterFamily = "confluent-reporter";   // its records are reports, not the messages
inline constexpr std::string_view kShareGroupFamily = "kafka-share-group";  // the broker's; may omit the message

// Spring's exception is often only the container's wrapper; its cause is then what failed.
inline constexpr std::string_view kSpringWrapper =
    "org.springframework.kafka.listener.ListenerExecutionFailedException";
inline constexpr std::string_view kSpringCause = "kafka_dlt-exception-cause-fqcn";
inline constexpr std::string_view kSpringRetryCause = "kafka_exception-cause-fqcn";

// SmallRye's, for a record that it could not read: the record's value (or key) is then null, and these are its bytes.
inline constexpr std::string_view kUnreadableBytes = "deserialization-failure-data";
inline constexpr std::string_view kUnreadableIsKey = "deserialization-failure-key";  // "true": they are of the key

}  // namespace deliverd::deadletter
