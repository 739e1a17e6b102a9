// What the event outbox refuses before a database is asked: the same rules, and the same words, on both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "deliverd/outbox.h"
#include "deliverd/result.h"

namespace deliverd::client {

inline constexpr std::size_t kMaxEventNameCharacters = 255;
inline constexpr std::size_t kMaxEventPayloadBytes = std::size_t{16} * 1024 * 1024;  // half of what a relay has in hand
inline constexpr std::size_t kMaxEventMetadataBytes = std::size_t{64} * 1024;        // more is no header anywhere

/// All answer code `bad_argument`, permanent, and name the argument.
[[nodiscard]] Result<void> check_event(const NewEvent& event);
/// 0 to about 31 years, as leases.
[[nodiscard]] Result<void> check_age(double older_than_seconds);

}  // namespace deliverd::client
