// Names of topics. Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace deliverd::deadletter {

inline constexpr std::string_view kDeadLetterSuffix = ".dlq.v1";
inline constexpr std::string_view kDeadLetterPattern = "*.dlq.v1";  // of the topics that are read, unless configured
inline constexpr std::size_t kMaxTopicBytes = 249;                  // Kafka's limit

/// Shell-style: `*` is any text, `?` any one character; everything else stands for itself.
[[nodiscard]] bool matches_pattern(std::string_view topic, std::string_view pattern) noexcept;

/// A name that a Kafka topic can have.
[[nodiscard]] bool is_topic_name(std::string_view name) noexcept;

/// Whether a topic is itself for dead letters: a record must not be sent there. Decided by its name, and only by what
/// is sure: it is one of those that are read (`pattern`), or ends in `.dlq.v1`. Other people's habits (`-dlt`, `.DLQ`)
/// are no proof; who has such topics says so in the pattern.
[[nodiscard]] bool is_dead_letter_topic(std::string_view topic, std::string_view pattern = kDeadLetterPattern) noexcept;

}  // namespace deliverd::deadletter
