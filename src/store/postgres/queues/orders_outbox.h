// The order outbox on PostgreSQL.
//
// Claims go by next_attempt_at, not by created_at. A new order is due when it is created, so the two differ only for
// retries. By due time one small index answers both what is due and what comes first; a retry is behind the position
// where the next look starts, instead of before it; and while a broker fails, retries of old orders do not push every
// new one back.
//
// In `sending`, updated_at is the lease: the rule for stuck rows reads it anyway. A worker renews at a third of the
// threshold, so it may be shorter than a slow send. rescue() is a statement of its own and not part of the claim,
// because it has an audit line of its own and the claim's index holds only what is queued.
#pragma once

#include "store/orders.h"
#include "store/postgres/queues/batch_outbox.h"

namespace deliverd::store::postgres {

class PostgresOrdersOutbox final : public BatchOutbox {
public:
    /// `pool` outlives the outbox. Dead letters are of `lane`.
    PostgresOrdersOutbox(Pool& pool, std::string_view schema, const OrdersOptions& options, std::string lane);

    Result<ClaimBatch> claim(const ClaimRequest& request) override;
    Result<std::int64_t> rescue(std::string_view worker_id, Duration stuck_for) override;

private:
    [[nodiscard]] Params settle_params(std::string_view worker_id,
                                       std::span<const Settlement* const> batch) const override;

    const OrdersOptions options_;
};

}  // namespace deliverd::store::postgres
