// Letters of rows that a lane gave up on: a further step of the transaction that settles them.
#pragma once

#include <string>

namespace deliverd::store::postgres {

/// Lane, worker, ids. `memory` and `orders` are the tables. Only of rows that this transaction made dead.
[[nodiscard]] std::string memory_letters_sql(const std::string& memory);
[[nodiscard]] std::string order_letters_sql(const std::string& orders);

/// `selected` are the columns from `outbox` on, and where they come from. A row that dies again after it was sent back
/// makes its letter what it was at first, but for the count of its retries; after the last of them it is DEAD. Whether
/// it is the same message, or one whose row has the same id, a trigger decides (0010).
[[nodiscard]] std::string insert_letters_sql(const std::string& selected, const std::string& event_id = "null::text");

/// The two columns error_message and error_class, from an expression for a row's last error.
[[nodiscard]] std::string error_columns_sql(const std::string& error);

}  // namespace deliverd::store::postgres
