// What a table that is to be relayed looks like.
#pragma once

#include <string_view>
#include <vector>

#include "store/events.h"
#include "store/sqlite/events/event_sql.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

/// What of the table may be null; of a table that is not there, everything.
[[nodiscard]] Result<EventNulls> nulls_of(Handle& handle, const EventTable& table);

/// Whether it is our own `outbox`, with the indexes of the migration.
[[nodiscard]] Result<bool> has_our_indexes(Handle& handle, const EventTable& table);

/// Whether its ids are declared as whole numbers; true for a table that is not there.
[[nodiscard]] Result<bool> has_number_ids(Handle& handle, const EventTable& table);

/// Refuses (permanent, `bad_argument`) what cannot be an id of the table.
[[nodiscard]] Result<void> check_row_id(Handle& handle, const EventTable& table, std::string_view argument,
                                        const RowId& row_id);

/// EventOutbox::inspect().
[[nodiscard]] Result<std::vector<Finding>> inspect_table(Handle& handle, const EventTable& table);

}  // namespace deliverd::store::sqlite
