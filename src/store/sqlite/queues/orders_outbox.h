// The order outbox on SQLite, for lanes.
#pragma once

#include "store/orders.h"
#include "store/sqlite/queues/outbox_base.h"

namespace deliverd::store::sqlite {

/// `file` outlives the queue. Dead letters are of `lane`.
[[nodiscard]] std::unique_ptr<RowQueue> make_order_queue(File& file, const OrdersOptions& options, std::string lane);

}  // namespace deliverd::store::sqlite
