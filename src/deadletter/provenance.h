// Where a dead letter came from and why, read from the headers that producers of dead letters write. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "message/record.h"
#include "store/dead_letters.h"

namespace deliverd::deadletter {

/// Counts how often a record was sent back.
inline constexpr std::string_view kReplaysHeader = "deliverd-replays";

/// From the header families of docs/dead-letters.md; the topic's name without `.dlq.v1` where none says more. Text that
/// is not UTF-8 or too long is made presentable; the headers themselves stay as they are.
[[nodiscard]] store::Provenance provenance_of(const Record& record);

/// Whether a topic is itself for dead letters, by its name: a record must not be sent there.
[[nodiscard]] bool is_dead_letter_topic(std::string_view topic);

/// The record to publish: the letter's key, value and headers without those that tell of the failure, with
/// kReplaysHeader one higher, to its original topic. `fresh_key` where it had no key and `value` is not null.
[[nodiscard]] Record replay_of(const Record& dead, std::string_view original_topic, std::string_view fresh_key);

/// Why the letter cannot be sent back, for people; empty when it can.
[[nodiscard]] std::string replay_refusal(const store::LetterDetail& letter);

}  // namespace deliverd::deadletter
