// One entry of a spool: how it is written, read, changed, and when it is due or over. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/random.h"
#include "deliverd/spool.h"

namespace deliverd::spool {

inline constexpr std::size_t kMaxFaultBytes = 512;  // of an error's message that is kept
inline constexpr std::size_t kMaxJobIdBytes = 512;  // it goes into every request
inline constexpr std::size_t kMaxEndpointBytes = 8192;
inline constexpr std::int64_t kKeepResolvedMs = 24LL * 3600 * 1000;
inline constexpr std::int64_t kKeepExhaustedMs = 7 * kKeepResolvedMs;

[[nodiscard]] std::int64_t unix_ms(WallTime time);

/// `NAME-<unix ms>-<six of 0-9a-z>`
[[nodiscard]] std::string make_job_id(std::string_view name, std::int64_t now_ms, Random& random);

/// spool_delay_ms() with a drawn jitter, in whole milliseconds.
[[nodiscard]] std::int64_t draw_delay_ms(std::int64_t attempt, Random& random);

/// Failure (permanent, `unreadable`): why the line is no entry. Fields that are not known are no reason.
[[nodiscard]] Result<SpoolEntry> parse_entry(std::string_view line);

/// The line of a new entry, with the seed's fields in the seed's order; fills `json` too.
void write_entry(SpoolEntry& entry);

/// Pending, attempts left, and its time has come.
[[nodiscard]] bool is_due(const SpoolEntry& entry, std::int64_t now_ms);
/// Exhausted, and nobody has taken it over.
[[nodiscard]] bool is_unmarked(const SpoolEntry& entry);
/// cleanup() drops it.
[[nodiscard]] bool is_over(const SpoolEntry& entry, std::int64_t now_ms);

/// The payload with `idempotencyKey`, which replaces one that is there; a payload that is no object as
/// {"idempotencyKey", "payload"}.
[[nodiscard]] std::string request_body(const SpoolEntry& entry);

// The line as it stands after something happened; everything else in it stays as it was written.
[[nodiscard]] std::string resolved_line(const SpoolEntry& entry, std::int64_t now_ms);
/// One more attempt failed; `next_retry_ms` is when the next one is due. `exhausted` when there is none.
[[nodiscard]] std::string failed_line(const SpoolEntry& entry, const SpoolFault& fault, std::int64_t next_retry_ms);
[[nodiscard]] bool is_last_attempt(const SpoolEntry& entry);
/// Pending again and due now, with no attempts made; put back for that receipt, else for the one it has, if any.
[[nodiscard]] std::string revived_line(const SpoolEntry& entry, std::int64_t now_ms,
                                       const std::optional<std::string>& receipt = std::nullopt);
/// Handed over for that receipt.
[[nodiscard]] std::string marked_line(const SpoolEntry& entry, std::string_view receipt);

}  // namespace deliverd::spool
