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

// What is kept of what headers say; the headers themselves stay as they are.
inline constexpr std::size_t kMaxErrorMessageBytes = 8 * 1024;
inline constexpr std::size_t kMaxErrorClassBytes = 512;
inline constexpr std::size_t kMaxStackTraceBytes = 64 * 1024;
inline constexpr std::size_t kMaxProducerBytes = 255;

/// `bytes` as text that both databases take: UTF-8, without NUL, at most `max_bytes`.
[[nodiscard]] std::string presentable(std::string_view bytes, std::size_t max_bytes);

/// From the header families of docs/dead-letters.md (deadletter/failure_headers.h):
///   - the first family, in the table's order, that names an original topic tells the origin: topic, partition, offset.
///     A name that no topic can have counts as none. Where no family names one: the dead-letter topic's own name,
///     without `.dlq.v1`.
///   - message, class and stack trace of the error are each the first family's that has it: `error` before all others.
///   - of a header that was written repeatedly, as a record went through several hands: the oldest tells the origin,
///     the newest the failure. Newest is last, except with SmallRye, which puts its own before those that were there.
///   - null and empty values say nothing.
[[nodiscard]] store::Provenance provenance_of(const Record& record);

/// The record to publish: the letter's key, value and headers without those that tell of the failure, with
/// kReplaysHeader one higher (behind the others; one that is not a number counts as 0), to its original topic.
/// `fresh_key` where it had no key and `value` is not null. A record that SmallRye could not read gets its bytes back
/// from the header in which they were kept.
[[nodiscard]] Record replay_of(Record dead, std::string_view original_topic, std::string_view fresh_key);

/// The record of a letter, as it is to be sent back: of one that was inserted with the seed's columns alone, the
/// payload is the value.
[[nodiscard]] Record replay_of(store::LetterDetail letter, std::string_view fresh_key);

/// Why the letter cannot be sent back, for people; empty when it can. `pattern`: of the topics that are read, where
/// nothing is sent to. Empty: nothing is published at all, so that it does not matter where to; what was read
/// from Kafka is refused then.
[[nodiscard]] std::string replay_refusal(const store::LetterDetail& letter,
                                         std::string_view pattern = kDeadLetterPattern);

}  // namespace deliverd::deadletter
