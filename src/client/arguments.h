// What the protocols refuse before a database is asked: the same rules, and the same words, on both.
#pragma once

#include <cstdint>
#include <string_view>

#include "deliverd/outbox.h"
#include "deliverd/result.h"

namespace deliverd::client {

/// About 31 years: a bound keeps the arithmetic on times finite.
inline constexpr double kMaxLeaseSeconds = 1e9;

inline constexpr std::int64_t kMaxEventNameCharacters = 255;
inline constexpr std::int64_t kMaxEventPayloadBytes = 16LL * 1024 * 1024;  // half of what a relay has in hand
inline constexpr std::int64_t kMaxEventMetadataBytes = 64LL * 1024;        // no protocol takes longer headers

/// All answer code `bad_argument`, permanent, and name the argument.
[[nodiscard]] Result<void> check_worker(std::string_view worker_id);
/// Text both databases can store: valid UTF-8 without NUL bytes.
[[nodiscard]] Result<void> check_text(std::string_view name, std::string_view text);
[[nodiscard]] Result<void> check_limit(std::int32_t limit);
[[nodiscard]] Result<void> check_claim(std::string_view worker_id, std::int32_t limit, double lease_seconds);
[[nodiscard]] Result<void> check_memory(std::string_view target_space, std::string_view payload_md,
                                        std::int64_t max_payload_bytes);
[[nodiscard]] Result<void> check_settle(std::string_view worker_id, std::string_view name, std::string_view text);
[[nodiscard]] Result<void> check_event(const NewEvent& event);
/// 0 to kMaxLeaseSeconds.
[[nodiscard]] Result<void> check_seconds(std::string_view name, double seconds);
/// RFC 3339, between the years 1 and 9999.
[[nodiscard]] Result<void> check_time(std::string_view name, std::string_view time);

}  // namespace deliverd::client
