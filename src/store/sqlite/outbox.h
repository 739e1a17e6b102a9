// The memory outbox on SQLite: a batch is one transaction of prepared statements.
#pragma once

#include "store/outbox.h"
#include "store/sqlite/file.h"

namespace deliverd::store::sqlite {

class SqliteOutbox final : public Outbox {
public:
    /// `file` outlives the outbox.
    explicit SqliteOutbox(File& file) : file_(file) {}

    Result<ClaimBatch> claim(const ClaimRequest& request) override;
    Result<std::vector<SettleAnswer>> settle(std::string_view worker_id,
                                             std::span<const Settlement> settlements) override;
    Result<RenewAnswer> renew(std::string_view worker_id, std::span<const std::int64_t> ids) override;
    Result<std::int64_t> release(std::string_view worker_id, std::span<const std::int64_t> ids) override;
    Result<void> audit(std::string_view worker_id, std::span<const AuditNote> notes) override;
    Result<double> lag_seconds() override;
    Result<OutboxCounts> counts() override;
    Result<void> ping(Duration deadline) override;

private:
    /// Ids the statement (1 ids as JSON, 2 worker) answers, in a transaction of its own.
    Result<std::vector<std::int64_t>> run_on_ids(std::string_view sql, std::string_view worker_id,
                                                 std::span<const std::int64_t> ids);

    File& file_;
};

}  // namespace deliverd::store::sqlite
