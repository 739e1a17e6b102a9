// Order intake on PostgreSQL.
#pragma once

#include "store/orders.h"
#include "store/postgres/connection/pool.h"
#include "store/postgres/queues/orders_sql.h"

namespace deliverd::store::postgres {

class PostgresOrders final : public Orders {
public:
    /// `pool` outlives this.
    PostgresOrders(Pool& pool, std::string_view schema, const OrdersOptions& options)
        : pool_(pool), sql_(schema), options_(options) {}

    Result<std::vector<AcceptAnswer>> accept(std::span<const NewOrder> orders) override;
    Result<std::optional<OrderDetail>> find(std::string_view idempotency_key) override;
    Result<std::vector<Order>> list(const OrderQuery& query) override;

private:
    [[nodiscard]] Params accept_params(std::span<const NewOrder> orders, std::span<const std::size_t> firsts) const;

    Pool& pool_;
    const OrdersStatements sql_;
    const OrdersOptions options_;
};

}  // namespace deliverd::store::postgres
