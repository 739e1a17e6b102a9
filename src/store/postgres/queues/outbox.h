// The memory outbox on PostgreSQL.
#pragma once

#include "store/postgres/queues/batch_outbox.h"

namespace deliverd::store::postgres {

class PostgresOutbox final : public BatchOutbox {
public:
    /// `pool` outlives the outbox. Dead letters are of `lane`.
    PostgresOutbox(Pool& pool, std::string_view schema, std::string lane);

    Result<ClaimBatch> claim(const ClaimRequest& request) override;

    /// Database::remove_memories.
    Result<std::int64_t> remove(std::string_view target_space, std::int64_t first_id, std::int64_t last_id);

private:
    [[nodiscard]] Params settle_params(std::string_view worker_id,
                                       std::span<const Settlement* const> batch) const override;
};

}  // namespace deliverd::store::postgres
