// Where a dead letter came from and why, read from the headers that producers of dead letters write; and the record
// that goes back. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "deadletter/topic_pattern.h"
#include "message/record.h"
#include "store/dead_letters.h"

namespace deliverd::deadletter {

/// Counts how often a record was sent back: a decimal number.
inline constexpr std::string_view kReplaysHeader = "deliverd-replays";

// How much of what headers say is kept as provenance; the headers themselves stay as they are.
inline constexpr std::size_t kMaxErrorMessageBytes = 8 * 1024;
inline constexpr std::size_t kMaxErrorClassBytes = 512;
inline constexpr std::size_t kMaxStackTraceBytes = 64 * 1024;
inline constexpr std::size_t kMaxProducerBytes = 255;

/// `bytes` as text that both databases accept: UTF-8, without NUL, at most `max_bytes`.
[[nodiscard]] std::string presentable(std::string_view bytes, std::size_t max_bytes);

/// From the header families of docs/dead-letters.md (deadletter/failure_headers.h):
///   - The origin (topic, partition, offset) comes from the first family, in the table's order, that names an original
///     topic. A name that no topic can have is ignored. If no family names one, it is the dead-letter topic's own name
///     without `.dlq.v1`.
///   - Message, class and stack trace of the error each come from the first family that has them; `error` goes first.
///   - Of a header that was written several times, the oldest gives the origin and the newest the failure. The newest
///   is
///     last, except with SmallRye, which writes its own before existing ones.
///   - Null and empty values are ignored.
[[nodiscard]] store::Provenance provenance_of(const Record& record);

/// The record to publish to its original topic: the letter's key, value and headers, without the headers about the
/// failure, and with kReplaysHeader one higher (last; one that is not a number counts as 0). It gets `fresh_key` when
/// it had no key and `value` is not null. A record that SmallRye could not read gets its bytes back from the header in
/// which they were kept.
[[nodiscard]] Record replay_of(Record dead, std::string_view original_topic, std::string_view fresh_key);

/// The record of a letter, as it is sent back. When a letter was inserted without a record, its payload is the value.
[[nodiscard]] Record replay_of(store::LetterDetail letter, std::string_view fresh_key);

/// Why the letter cannot be sent back, for people; empty when it can. `pattern`: of the topics that are read; nothing
/// is sent to them. An empty pattern: nothing is published at all, so that the destination does not matter; what was
/// read from Kafka is then refused.
[[nodiscard]] std::string replay_refusal(const store::LetterDetail& letter,
                                         std::string_view pattern = kDeadLetterPattern);

}  // namespace deliverd::deadletter
