// One entry of a spool: how it is written, read and changed, and when it is due or expired. Pure.
//
// An entry carries its receipts, because the file and a database share no transaction. When an entry is handed over,
// the dead letter is stored first, with an id that follows from the entry, so that storing can be repeated; then the
// entry names its letter (`deadLetter`). After a retry it names the letter that it was put back from (`revivedFrom`).
// So each step can be repeated after a crash. A further failure makes another letter: a letter that a person has dealt
// with does not change.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/random.h"
#include "deliverd/spool.h"

namespace deliverd::spool {

inline constexpr std::size_t kMaxFaultBytes = 512;  // of an error's message; the rest is cut
inline constexpr std::size_t kMaxJobIdBytes = 512;  // it is part of every request
inline constexpr std::size_t kMaxEndpointBytes = 8192;
inline constexpr std::int64_t kKeepResolvedMs = 24LL * 3600 * 1000;
inline constexpr std::int64_t kKeepExhaustedMs = 7 * kKeepResolvedMs;

[[nodiscard]] std::int64_t unix_ms(WallTime time);

/// `NAME-<unix ms>-<six of 0-9a-z>`
[[nodiscard]] std::string make_job_id(std::string_view name, std::int64_t now_ms, Random& random);

/// spool_delay_ms() with a drawn jitter, in whole milliseconds.
[[nodiscard]] std::int64_t draw_delay_ms(std::int64_t attempt, Random& random);

/// Failure (permanent, `unreadable`): why the line is not an entry. Unknown fields are allowed.
[[nodiscard]] Result<SpoolEntry> parse_entry(std::string_view line);

/// Writes the line of a new entry into `json`, with its fields in the order of the file format.
void write_entry(SpoolEntry& entry);

/// Pending, with attempts left, and its time has come.
[[nodiscard]] bool is_due(const SpoolEntry& entry, std::int64_t now_ms);
/// Exhausted, and not handed over.
[[nodiscard]] bool is_unmarked(const SpoolEntry& entry);
/// Old enough for cleanup() to drop it.
[[nodiscard]] bool is_over(const SpoolEntry& entry, std::int64_t now_ms);

/// The payload with `idempotencyKey`, which replaces an existing one; a payload that is not an object becomes
/// {"idempotencyKey", "payload"}.
[[nodiscard]] std::string request_body(const SpoolEntry& entry);

// The line after an event. The rest of it keeps its bytes.
[[nodiscard]] std::string resolved_line(const SpoolEntry& entry, std::int64_t now_ms);
/// One more attempt failed; the next one is due at `next_retry_ms`. `exhausted` if that was the last attempt.
[[nodiscard]] std::string failed_line(const SpoolEntry& entry, const SpoolFault& fault, std::int64_t next_retry_ms);
[[nodiscard]] bool is_last_attempt(const SpoolEntry& entry);
/// Pending again and due now, with no attempts made. Put back for `receipt`, otherwise for the one that it has, if any.
[[nodiscard]] std::string revived_line(const SpoolEntry& entry, std::int64_t now_ms,
                                       const std::optional<std::string>& receipt = std::nullopt);
/// Handed over for `receipt`.
[[nodiscard]] std::string marked_line(const SpoolEntry& entry, std::string_view receipt);

}  // namespace deliverd::spool
