// From the answer of a reading statement to the rows a relay works on.
#pragma once

#include <libpq-fe.h>

#include <vector>

#include "store/events.h"

namespace deliverd::store::postgres {

/// Appends the rows of an answer with the columns EventColumn, until they take `byte_limit` in memory: then true. In id
/// order where ids are numbers and `sorted` is false.
bool append_event_rows(std::vector<EventRow>& out, const PGresult* result, EventOrigin origin, bool sorted,
                       std::int64_t byte_limit);

}  // namespace deliverd::store::postgres
