// Letters of events that a lane gave up on (see letters/lane_letters.h), and where their tables are.
#pragma once

#include <string>

#include "store/events.h"
#include "store/postgres/events/event_shape.h"

namespace deliverd::store::postgres {

/// Lane, worker, ids: numbers, or the texts of uuids. Only of rows that this transaction made dead.
[[nodiscard]] std::string event_letters_sql(const EventTable& table, const TablePlace& place, const EventShape& shape);

/// Lane, schema, table, columns for id, published, retry_count, next_attempt_at, dead_at ("" for none), type of the id.
/// Keeps where a lane's events are, for those that go back.
[[nodiscard]] std::string keep_event_table_sql();

}  // namespace deliverd::store::postgres
