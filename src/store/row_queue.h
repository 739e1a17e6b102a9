// The port through which a lane leases rows of an outbox table (memories, orders) and records how each attempt ended.
// One batch is one round trip, whatever its size. (The public deliverd::Outbox is for events, which have no row
// leases.)
//
// Guarantees every implementation gives (store/conformance/row_queue.h checks them):
//   - a row is held by at most one worker at a time. The database's clock decides when a lease has run out and when a
//     row is due, so a retry is given as a delay; a worker's own clock only measures how long ago it claimed;
//   - a settlement takes effect only while the row is open, held by that worker and has as many failures as when it was
//     claimed. That the lease has run out does not matter if no other worker took the row. Otherwise nothing changes
//     and the answer says so. The count is the fence: a lane repeats a settle whose answer was lost, and may have
//     claimed the row again by then; it still counts once. (The public protocol has no such condition; the simulator
//     found a failure that was counted twice without it.)
//   - a settlement and its audit record are one transaction: both or neither, once;
//   - settle and renew never wait for a row lock: they leave out a row that someone has locked at this moment. A
//     settlement left out in this way is not applied, and its RowState shows the row still open, held by this worker,
//     with the same count: try again.
//
// Threads: every method may be called from several threads at once. Each call borrows a connection and waits for it no
//   longer than the store's own named limits.
// Blocking: a call blocks for at most the pool wait plus the statement timeout, and for less after
//   Database::limit_waits().
// Failure: Error class retryable (certainly not done), ambiguous (the connection was lost while it may have committed)
//   or permanent (bad argument, schema missing); codes `db_timeout`, `db_error`, `db_unreachable`, `bad_argument`. The
//   store replaces broken connections itself, with backoff.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "deliverd/result.h"
#include "message/message.h"

namespace deliverd::store {

/// A position in due order. Opaque outside the store that made it.
struct Cursor {
    std::string due_at;
    std::int64_t id = 0;
};

struct ClaimRequest {
    std::string worker_id;
    std::int32_t limit = 0;
    Duration lease{};
    /// Look only behind this position. Saves walking over rows settled a moment ago, whose dead index entries a long
    /// transaction elsewhere can keep. A claim without a position finds the rows before it.
    std::optional<Cursor> after;
};

/// A row now held by the claiming worker.
struct Claimed {
    Message message;
    double age_seconds = 0;                        // when claimed: since it was due (memory) or accepted (orders)
    bool duplicate = false;                        // a row with the same dedup_key was already sent …
    std::optional<std::string> duplicate_receipt;  // … and this is what its receiver called it
};

struct ClaimBatch {
    std::vector<Claimed> rows;   // in due order
    std::optional<Cursor> last;  // of the last row; none when there are no rows
};

enum class SettleKind {
    sent,       // delivered
    duplicate,  // not sent: an equal message already was
    retry,      // one failure more, due again after `delay`
    dead,       // one failure more, given up
};

struct Settlement {
    std::int64_t id = 0;
    SettleKind kind = SettleKind::sent;
    std::int32_t failures_before = 0;        // Message::failures, which the row must still have
    std::optional<std::string> receipt{};    // sent, duplicate
    std::string error{};                     // retry, dead: one line for people, "CODE: detail"
    Duration delay{};                        // retry: added to the database's now()
    std::string code{};                      // the outcome's: BROKER_5XX, CONFLICT_PROCESSED; empty for a plain success
    bool in_doubt = false;                   // retry, dead: the receiver may have accepted it
    std::optional<ReceiverAnswer> answer{};  // sent: what the receiver said, where its contract wants it kept
};

[[nodiscard]] inline bool failed(const Settlement& settlement) {
    return settlement.kind == SettleKind::retry || settlement.kind == SettleKind::dead;
}

/// A row's state, whatever its table calls it.
enum class RowPhase { open, sent, dead };

[[nodiscard]] constexpr RowPhase phase_of(std::string_view status) noexcept {
    return status == "sent" ? RowPhase::sent : status == "dead" ? RowPhase::dead : RowPhase::open;
}

/// The current state of a row, held by a worker or not.
struct RowState {
    RowPhase phase = RowPhase::open;
    std::string status{};  // the table's own word
    std::int32_t failures = 0;
    std::optional<std::string> locked_by{};
    std::optional<std::string> last_error{};  // Settlement::error of the last failure, as it was stored
};

struct SettleAnswer {
    std::int64_t id = 0;
    bool applied = false;
    std::optional<RowState> row;  // when not applied: the row as it is; none when it is gone
};

struct RenewAnswer {
    std::vector<std::int64_t> renewed;
    std::vector<std::int64_t> lost;  // no longer open, or no longer this worker's
};

/// One extra line in outbox_audit, for what is not a transition: conflicts and database trouble.
struct AuditNote {
    std::int64_t id = 0;
    std::string reason;  // outbox_flush_conflict | _db_timeout | _db_error
    std::string detail;
    std::int32_t failures = 0;
};

struct RowCounts {
    std::int64_t pending = 0;  // every open state
    std::int64_t sent = 0;
    std::int64_t dead = 0;

    /// The one for rows with the table's own word for their state.
    [[nodiscard]] std::int64_t& of(std::string_view status) {
        const RowPhase phase = phase_of(status);
        return phase == RowPhase::sent ? sent : phase == RowPhase::dead ? dead : pending;
    }
};

class RowQueue {
public:
    virtual ~RowQueue() = default;

    virtual Result<ClaimBatch> claim(const ClaimRequest& request) = 0;

    /// One answer per settlement, in the same order.
    virtual Result<std::vector<SettleAnswer>> settle(std::string_view worker_id,
                                                     std::span<const Settlement> settlements) = 0;

    /// The leases begin anew. A row that someone has locked at this moment is in neither list.
    virtual Result<RenewAnswer> renew(std::string_view worker_id, std::span<const std::int64_t> ids) = 0;

    /// Gives unsent rows back, so that another worker need not wait until the lease runs out.
    virtual Result<std::int64_t> release(std::string_view worker_id, std::span<const std::int64_t> ids) = 0;

    virtual Result<void> audit(std::string_view worker_id, std::span<const AuditNote> notes) = 0;

    /// Takes rows away from workers that have neither settled nor renewed them for `stuck_for`; answers how many.
    /// Only for outboxes whose claim does not do so itself.
    virtual Result<std::int64_t> rescue(std::string_view /*worker_id*/, Duration /*stuck_for*/) { return 0; }

    /// How old the oldest due, open row is, as Claimed::age_seconds counts it; 0 when there is none.
    virtual Result<double> lag_seconds() = 0;

    /// Rows by state. Reads the whole table: for the demo, the tests and people, not for a loop.
    virtual Result<RowCounts> counts() = 0;

    /// Answers when the database does, within `deadline`.
    virtual Result<void> ping(Duration deadline) = 0;
};

}  // namespace deliverd::store
