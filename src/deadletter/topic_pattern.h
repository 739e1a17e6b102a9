// Names of topics. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "deliverd/result.h"

namespace deliverd::deadletter {

inline constexpr std::string_view kDeadLetterSuffix = ".dlq.v1";
inline constexpr std::string_view kDeadLetterPattern = "*.dlq.v1";  // of the topics that are read, by default
inline constexpr std::size_t kMaxTopicBytes = 249;                  // Kafka's limit

/// Shell-style: `*` is any text, `?` is any one character; everything else is literal.
[[nodiscard]] bool matches_pattern(std::string_view topic, std::string_view pattern) noexcept;

/// The pattern as librdkafka subscribes to it: `*.dlq.v1` is `^.*\.dlq\.v1$`.
[[nodiscard]] std::string subscription_of(std::string_view pattern);

/// Permanent error for a pattern that no topic's name can match.
[[nodiscard]] Result<void> check_topic_pattern(std::string_view pattern);

/// A name that a Kafka topic can have.
[[nodiscard]] bool is_topic_name(std::string_view name) noexcept;

/// Whether a topic is itself for dead letters: a record must not be sent there. Decided by its name, and only when that
/// is certain: it matches `pattern` (of the topics that are read), or ends in `.dlq.v1`. Other conventions (`-dlt`,
/// `.DLQ`) prove nothing; users with such topics configure the pattern.
[[nodiscard]] bool is_dead_letter_topic(std::string_view topic, std::string_view pattern = kDeadLetterPattern) noexcept;

}  // namespace deliverd::deadletter
