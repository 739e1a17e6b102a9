// Order intake on PostgreSQL.
//
// The request is kept twice: request_json is for queries, and PostgreSQL rewrites its numbers (1e2 becomes 100) and
// sorts its fields; request_body holds the bytes that were posted, which are what the broker gets. SQLite has no such
// type and needs no second column.
#pragma once

#include "store/orders.h"
#include "store/postgres/connection/pool.h"

namespace deliverd::store::postgres {

class PostgresOrders final : public Orders {
public:
    /// `pool` outlives this.
    PostgresOrders(Pool& pool, std::string_view schema, const OrdersOptions& options);

    Result<std::vector<AcceptAnswer>> accept(std::span<const NewOrder> orders) override;
    Result<std::optional<OrderDetail>> find(std::string_view idempotency_key) override;
    Result<std::vector<Order>> list(const OrderQuery& query) override;

private:
    Pool& pool_;
    const Statements sql_;
    const OrdersOptions options_;
};

}  // namespace deliverd::store::postgres
