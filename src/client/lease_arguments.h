// What the lease protocol refuses before a database is asked: the same rules, and the same words, on both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "deliverd/result.h"

namespace deliverd::client {

/// About 31 years: a bound keeps the arithmetic on times finite.
inline constexpr double kMaxLeaseSeconds = 1e9;

/// All answer code `bad_argument`, permanent, and name the argument.
[[nodiscard]] Result<void> check_worker(std::string_view worker_id);
/// Text both databases can store: valid UTF-8 without NUL bytes.
[[nodiscard]] Result<void> check_text(std::string_view name, std::string_view text);
[[nodiscard]] Result<void> check_limit(std::int32_t limit);
[[nodiscard]] Result<void> check_claim(std::string_view worker_id, std::int32_t limit, double lease_seconds);
[[nodiscard]] Result<void> check_memory(std::string_view target_space, std::string_view payload_md,
                                        std::int64_t max_payload_bytes);
[[nodiscard]] Result<void> check_settle(std::string_view worker_id, std::string_view name, std::string_view text);
/// Refuses text that has more than `most` of `unit` ("bytes").
[[nodiscard]] Result<void> check_size(std::string_view name, std::size_t size, std::int64_t most, std::string_view unit,
                                      std::string_view advice);
/// 0 to kMaxLeaseSeconds.
[[nodiscard]] Result<void> check_seconds(std::string_view name, double seconds);
/// RFC 3339, between the years 1 and 9999.
[[nodiscard]] Result<void> check_time(std::string_view name, std::string_view time);

}  // namespace deliverd::client
