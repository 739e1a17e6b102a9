// Letters of events that a lane gave up on (see letters/sql/lane_letters.sql).
#pragma once

#include <string>

#include "store/events.h"
#include "store/postgres/events/event_shape.h"

namespace deliverd::store::postgres {

/// Lane, worker, ids: numbers, or the texts of uuids. Only of rows that this transaction made dead.
[[nodiscard]] std::string event_letters_sql(const EventTable& table, const TablePlace& place, const EventShape& shape);

}  // namespace deliverd::store::postgres
