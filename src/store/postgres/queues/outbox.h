// The memory outbox on PostgreSQL.
#pragma once

#include "store/postgres/queues/batch_outbox.h"
#include "store/postgres/queues/outbox_sql.h"

namespace deliverd::store::postgres {

class PostgresOutbox final : public BatchOutbox {
public:
    /// `pool` outlives the outbox. Dead letters are of `lane`.
    PostgresOutbox(Pool& pool, std::string_view schema, std::string lane)
        : BatchOutbox(pool, std::move(lane)), sql_(schema) {}

    Result<ClaimBatch> claim(const ClaimRequest& request) override;

    /// Database::remove_memories.
    Result<std::int64_t> remove(std::string_view target_space, std::int64_t first_id, std::int64_t last_id);

private:
    [[nodiscard]] const BatchStatements& statements() const override { return sql_; }
    [[nodiscard]] Params settle_params(std::string_view worker_id, std::span<const Settlement> settlements,
                                       std::span<const std::size_t> order) const override;

    const OutboxStatements sql_;
};

}  // namespace deliverd::store::postgres
