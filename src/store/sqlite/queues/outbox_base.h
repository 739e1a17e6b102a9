// What the outboxes of memories and orders do in the same way: a batch is one transaction of prepared statements.
#pragma once

#include "store/row_queue.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

/// The statements with the same parameters and answers for each table. All outlive the outbox.
struct OutboxStatements {
    std::string_view renew;       // 1 ids as a JSON array, 2 worker; answers the ids that it changed
    std::string_view release;     // the same
    std::string_view audit_note;  // 1 id, 2 reason, 3 detail, 4 count, 5 worker and actor
    std::string_view row_state;   // 1 id; answers status, failures, owner, error
    std::string_view lag;         // answers seconds, or no row
    std::string_view counts;      // answers status, count
};

/// A row that a claim has just taken.
struct TakenRow {
    Claimed claimed{};
    std::string due_at{};
    std::optional<std::string> unsendable{};  // why it cannot be sent
};

class OutboxBase : public RowQueue {
public:
    Result<ClaimBatch> claim(const ClaimRequest& request) final;
    Result<std::vector<SettleAnswer>> settle(std::string_view worker_id, std::span<const Settlement> settlements) final;
    Result<RenewAnswer> renew(std::string_view worker_id, std::span<const std::int64_t> ids) final;
    Result<std::int64_t> release(std::string_view worker_id, std::span<const std::int64_t> ids) final;
    Result<void> audit(std::string_view worker_id, std::span<const AuditNote> notes) final;
    Result<double> lag_seconds() final;
    Result<RowCounts> counts() final;
    Result<void> ping(Duration deadline) final { return file_.ping(deadline); }

protected:
    /// `file` outlives the outbox.
    OutboxBase(File& file, const OutboxStatements& statements) : file_(file), statements_(statements) {}

    // All of these are called inside a transaction.
    /// Claims, and writes the audit lines of it; in due order.
    virtual Result<std::vector<TakenRow>> take(Handle& handle, const ClaimRequest& request) = 0;
    /// Gives up, without an attempt, a row that this worker has taken.
    virtual Result<void> bury(Handle& handle, std::string_view worker_id, const Message& message, std::string why) = 0;
    /// Whether the settlement took effect; if so, with its audit line.
    virtual Result<bool> settle_row(Handle& handle, std::string_view worker_id, const Settlement& settlement) = 0;
    /// Writes the audit lines of rows that were given back.
    virtual Result<void> note_released(Handle& /*handle*/, std::string_view /*worker_id*/,
                                       std::span<const std::int64_t> /*ids*/) {
        return {};
    }

    File& file_;

private:
    const OutboxStatements statements_;
};

/// SQLite answers the rows of an UPDATE in any order.
[[nodiscard]] std::vector<TakenRow> in_due_order(std::vector<TakenRow> rows);

/// A column by name and what it holds.
using NamedText = std::pair<std::string_view, std::string_view>;

/// Why the first of `texts` that is not UTF-8 cannot be sent: an INSERT that bypasses the client library stores any
/// bytes.
[[nodiscard]] std::optional<std::string> unsendable_text(std::initializer_list<NamedText> texts);

}  // namespace deliverd::store::sqlite
