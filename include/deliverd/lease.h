// The lease protocol (docs/lease-protocol.md) on a connection the caller owns.
//
// Several workers share one table, `outbox_memory`. A worker *claims* due rows for some seconds, does the work, and
// *settles* each row: sent, retry later, or dead. A settle takes effect only for the worker that still holds the row;
// for everyone else it answers `false` and changes nothing.
//
//     auto lease = deliverd::lease_on(connection);              // PGconn* or sqlite3*
//     auto rows = lease->claim_outbox("worker-1", 10, 60);
//     for (const auto& row : *rows) { ... lease->ack_sent(row.outbox_id, "worker-1", memory_id); }
//
// Ownership: the connection remains the caller's and must outlive the Lease. Answers own their text.
// Transactions: no function begins or ends one. Each is one statement, which becomes part of the caller's transaction
//   if there is one. (On SQLite mark_dead_by_worker() is two statements in a savepoint of its own.)
// Threads: one Lease (and its connection) is used by one thread at a time.
// Blocking: each call is one round trip. It blocks for as long as the connection does: set statement_timeout or
//   busy_timeout on it to bound that.
// Time: the database's clock decides what is due and what has expired, never this process's.
// Failure: an Error, no exceptions. After one nothing changed, unless its class is ambiguous. Codes (error_codes.h):
//   `bad_argument`    permanent: an empty worker id, a limit below 1, a negative lease, a time that is not RFC 3339, a
//                     payload that is too large, text that is not UTF-8 or has a NUL byte
//   `db_timeout`      retryable: a lock or the statement took too long
//   `db_unreachable`  the connection was lost: ambiguous for what writes, else retryable
//   `db_error`        permanent or retryable, as the cause is; "run `deliverd migrate`" where the schema is missing
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deliverd/result.h"

struct pg_conn;
struct sqlite3;

namespace deliverd {

/// One row of `outbox_memory`. Times are RFC 3339 UTC text, as the database wrote them.
struct MemoryRow {
    std::int64_t outbox_id = 0;
    std::optional<std::int64_t> item_id;
    std::string target_space;
    std::string payload_md;
    std::string payload_sha;  // lower-case hex SHA-256 of payload_md's UTF-8 bytes
    std::string status;       // pending | sent | dead
    std::int32_t retry_count = 0;
    std::string next_attempt_at;
    std::optional<std::string> locked_at;
    std::optional<std::string> locked_by;
    std::optional<std::string> last_error;
    std::string created_at;
    std::string updated_at;
};

/// The `sent` row that already carried the same payload to the same space.
struct DedupHit {
    std::int64_t outbox_id = 0;
    std::optional<std::string> memory_id;
};

inline constexpr std::int32_t kDefaultClaimLimit = 10;
inline constexpr double kDefaultLeaseSeconds = 60;
inline constexpr std::int64_t kDefaultMaxPayloadBytes = 1024 * 1024;

class Lease {
public:
    virtual ~Lease() = default;

    /// Stores a row that is due at once; answers its id. Two calls store two rows: check_dedup() finds what is equal.
    virtual Result<std::int64_t> enqueue_memory(std::string_view target_space, std::string_view payload_md,
                                                std::optional<std::int64_t> item_id,
                                                std::int64_t max_payload_bytes = kDefaultMaxPayloadBytes) = 0;

    /// Takes up to `limit` due, pending rows that nobody holds (or whose lease ran out), oldest due first, and holds
    /// them for `worker_id`. Rows come back in due order; none is not a failure. Waits for no other worker's row.
    virtual Result<std::vector<MemoryRow>> claim_outbox(std::string_view worker_id,
                                                        std::int32_t limit = kDefaultClaimLimit,
                                                        double lease_seconds = kDefaultLeaseSeconds) = 0;

    /// pending -> sent. false: the row is not (or no longer) this worker's; nothing changed.
    virtual Result<bool> ack_sent(std::int64_t outbox_id, std::string_view worker_id,
                                  std::optional<std::string_view> memory_id = std::nullopt) = 0;

    /// Counts a failure and sets the time of the next attempt, which the caller computed (RFC 3339, years 1 to 9999).
    /// false: as for ack_sent().
    virtual Result<bool> fail_retry(std::int64_t outbox_id, std::string_view worker_id, std::string_view error,
                                    std::string_view next_attempt_at) = 0;

    /// pending -> dead, with a dead letter in the same transaction; the count stays as it was. false: as for
    /// ack_sent().
    virtual Result<bool> mark_dead_by_worker(std::int64_t outbox_id, std::string_view worker_id,
                                             std::string_view error) = 0;

    /// The lease begins anew with its whole length. false: as for ack_sent().
    virtual Result<bool> renew_lease(std::int64_t outbox_id, std::string_view worker_id) = 0;

    /// The same for many rows; answers how many were still this worker's.
    virtual Result<std::int64_t> renew_lease_batch(std::span<const std::int64_t> outbox_ids,
                                                   std::string_view worker_id) = 0;

    /// A `sent` row with this space and payload digest, if there is one.
    virtual Result<std::optional<DedupHit>> check_dedup(std::string_view target_space,
                                                        std::string_view payload_sha) = 0;

    /// The current state of one row, held by a worker or not; none when the id is unknown.
    virtual Result<std::optional<MemoryRow>> show(std::int64_t outbox_id) = 0;
};

/// `connection` must be open and its database migrated (`deliverd migrate`).
[[nodiscard]] std::unique_ptr<Lease> lease_on(pg_conn* connection);
[[nodiscard]] std::unique_ptr<Lease> lease_on(sqlite3* connection);

}  // namespace deliverd
