// What the event outbox refuses before a database is asked: the same rules, and the same words, on both.
#pragma once

#include <cstdint>
#include <string_view>

#include "deliverd/outbox.h"
#include "deliverd/result.h"

namespace deliverd::client {

inline constexpr std::int64_t kMaxEventNameCharacters = 255;
inline constexpr std::int64_t kMaxEventPayloadBytes = 16LL * 1024 * 1024;  // half of what a relay has in hand
inline constexpr std::int64_t kMaxEventMetadataBytes = 64LL * 1024;        // no protocol takes longer headers

/// Answers code `bad_argument`, permanent, and names the argument.
[[nodiscard]] Result<void> check_event(const NewEvent& event);

}  // namespace deliverd::client
