// The memory outbox on PostgreSQL.
#pragma once

#include "store/outbox.h"
#include "store/postgres/outbox_sql.h"
#include "store/postgres/pool.h"

namespace deliverd::store::postgres {

class PostgresOutbox final : public Outbox {
public:
    /// `pool` outlives the outbox.
    PostgresOutbox(Pool& pool, std::string_view schema) : pool_(pool), sql_(schema) {}

    Result<ClaimBatch> claim(const ClaimRequest& request) override;
    Result<std::vector<SettleAnswer>> settle(std::string_view worker_id,
                                             std::span<const Settlement> settlements) override;
    Result<RenewAnswer> renew(std::string_view worker_id, std::span<const std::int64_t> ids) override;
    Result<std::int64_t> release(std::string_view worker_id, std::span<const std::int64_t> ids) override;
    Result<void> audit(std::string_view worker_id, std::span<const AuditNote> notes) override;
    Result<double> lag_seconds() override;
    Result<OutboxCounts> counts() override;
    Result<void> ping(Duration deadline) override;

    /// Database::remove_memories.
    Result<std::int64_t> remove(std::string_view target_space, std::int64_t first_id, std::int64_t last_id);

private:
    /// Borrows a connection and runs one statement.
    Result<PgResult> run(const Statement& statement, const Params& params, Effect effect);
    /// The same for a statement that takes worker and ids; without ids a null result, which libpq takes for an empty
    /// one.
    Result<PgResult> run_on_ids(const Statement& statement, std::string_view worker_id,
                                std::span<const std::int64_t> ids);
    Result<void> describe_rest(Connection& connection, std::vector<SettleAnswer>& answers);

    Pool& pool_;
    const OutboxStatements sql_;
};

}  // namespace deliverd::store::postgres
