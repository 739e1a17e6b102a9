// Memories and orders on SQLite: their outboxes, which lanes work on, and the intake of orders.
#pragma once

#include <memory>
#include <string>

#include "store/orders.h"
#include "store/row_queue.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

/// `file` outlives what each of these answers. Dead letters are of `lane`.
[[nodiscard]] std::unique_ptr<RowQueue> make_memory_queue(File& file, std::string lane);
[[nodiscard]] std::unique_ptr<RowQueue> make_order_queue(File& file, const OrdersOptions& options, std::string lane);
[[nodiscard]] std::unique_ptr<Orders> make_orders(File& file, const OrdersOptions& options);

}  // namespace deliverd::store::sqlite
