// Memories and orders on PostgreSQL: their outboxes, which lanes work on, and the intake of orders.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "store/orders.h"
#include "store/postgres/connection/pool.h"
#include "store/row_queue.h"

namespace deliverd::store::postgres {

/// `pool` outlives what each of these answers. Dead letters are of `lane`.
[[nodiscard]] std::unique_ptr<RowQueue> make_memory_queue(Pool& pool, std::string_view schema, std::string lane);
[[nodiscard]] std::unique_ptr<RowQueue> make_order_queue(Pool& pool, std::string_view schema,
                                                         const OrdersOptions& options, std::string lane);
[[nodiscard]] std::unique_ptr<Orders> make_orders(Pool& pool, std::string_view schema, const OrdersOptions& options);

}  // namespace deliverd::store::postgres
