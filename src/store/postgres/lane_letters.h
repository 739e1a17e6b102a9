// Letters of rows that a lane gave up on: a further step of the transaction that settles them.
#pragma once

#include <string>
#include <string_view>

#include "store/events.h"
#include "store/postgres/event_shape.h"

namespace deliverd::store::postgres {

/// Lane, worker, ids. `memory` and `orders` are the tables. Only of rows that this transaction made dead.
[[nodiscard]] std::string memory_letters_sql(const std::string& memory);
[[nodiscard]] std::string order_letters_sql(const std::string& orders);

/// The same for a table of events; ids are numbers, or the texts of uuids.
[[nodiscard]] std::string event_letters_sql(const EventTable& table, const TablePlace& place, const EventShape& shape);

/// Lane, schema, table, columns for id, published, retry_count, next_attempt_at, dead_at ("" for none), type of the id.
/// Keeps where a lane's events are, for those that go back.
[[nodiscard]] std::string keep_event_table_sql();

}  // namespace deliverd::store::postgres
