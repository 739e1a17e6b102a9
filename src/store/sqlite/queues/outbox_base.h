// What every outbox on SQLite does alike: a batch is one transaction of prepared statements.
#pragma once

#include "store/row_queue.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

/// The statements that differ from table to table. All outlive the outbox.
struct OutboxStatements {
    std::string_view renew;       // 1 ids as a JSON array, 2 worker; answers the ids it changed
    std::string_view release;     // the same
    std::string_view audit_note;  // 1 id, 2 reason, 3 detail, 4 count, 5 worker and actor
    std::string_view row_state;   // 1 id; answers status, failures, owner, error
    std::string_view lag;         // answers seconds, or no row
    std::string_view counts;      // answers status, count
};

class OutboxBase : public RowQueue {
public:
    Result<std::vector<SettleAnswer>> settle(std::string_view worker_id, std::span<const Settlement> settlements) final;
    Result<RenewAnswer> renew(std::string_view worker_id, std::span<const std::int64_t> ids) final;
    Result<std::int64_t> release(std::string_view worker_id, std::span<const std::int64_t> ids) final;
    Result<void> audit(std::string_view worker_id, std::span<const AuditNote> notes) final;
    Result<double> lag_seconds() final;
    Result<RowCounts> counts() final;
    Result<void> ping(Duration deadline) final;

protected:
    /// `file` outlives the outbox.
    OutboxBase(File& file, const OutboxStatements& statements) : file_(file), statements_(statements) {}

    [[nodiscard]] File& file() const { return file_; }

    /// Both are called inside a transaction. Whether the settlement took effect; if so, with its audit line.
    virtual Result<bool> settle_row(Handle& handle, std::string_view worker_id, const Settlement& settlement) = 0;
    /// Writes what the audit is to know of rows that were given back.
    virtual Result<void> note_released(Handle& /*handle*/, std::string_view /*worker_id*/,
                                       std::span<const std::int64_t> /*ids*/) {
        return {};
    }

private:
    Result<SettleAnswer> settle_one(Handle& handle, std::string_view worker_id, const Settlement& settlement);

    File& file_;
    const OutboxStatements statements_;
};

/// A column by name and what it holds.
using NamedText = std::pair<std::string_view, std::string_view>;

/// Why the first of `texts` that is not UTF-8 cannot be sent: an INSERT past the client library stores any bytes.
[[nodiscard]] std::optional<std::string> unsendable_text(std::initializer_list<NamedText> texts);

}  // namespace deliverd::store::sqlite
