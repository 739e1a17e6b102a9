// The order outbox on PostgreSQL.
#pragma once

#include "store/orders.h"
#include "store/postgres/queues/batch_outbox.h"
#include "store/postgres/queues/orders_sql.h"

namespace deliverd::store::postgres {

class PostgresOrdersOutbox final : public BatchOutbox {
public:
    /// `pool` outlives the outbox. Dead letters are of `lane`.
    PostgresOrdersOutbox(Pool& pool, std::string_view schema, const OrdersOptions& options, std::string lane)
        : BatchOutbox(pool, std::move(lane)), sql_(schema), options_(options) {}

    Result<ClaimBatch> claim(const ClaimRequest& request) override;
    Result<std::int64_t> rescue(std::string_view worker_id, Duration stuck_for) override;

private:
    [[nodiscard]] const BatchStatements& statements() const override { return sql_; }
    [[nodiscard]] Params settle_params(std::string_view worker_id, std::span<const Settlement> settlements,
                                       std::span<const std::size_t> order) const override;

    const OrdersOutboxStatements sql_;
    const OrdersOptions options_;
};

}  // namespace deliverd::store::postgres
