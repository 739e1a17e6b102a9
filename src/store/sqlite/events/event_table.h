// What an event table looks like in the file's schema.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/events.h"
#include "store/sqlite/events/event_sql.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

struct TableShape {
    bool there = false;
    bool number_ids = true;              // its ids are declared as whole numbers; true if there is no such table
    bool own_indexes = false;            // it is deliverd's `outbox`, with the indexes of the migration
    EventNulls nulls{};                  // all of them if there is no such table
    std::vector<std::string> missing{};  // columns that it does not have
};

[[nodiscard]] Result<TableShape> read_shape(Handle& handle, const EventTable& table);

/// Refuses what cannot be an id of the table (permanent, `bad_argument`).
[[nodiscard]] Result<void> check_row_id(Handle& handle, const EventTable& table, std::string_view argument,
                                        const RowId& row_id);

/// EventOutbox::inspect().
[[nodiscard]] Result<std::vector<Finding>> inspect_table(Handle& handle, const EventTable& table);

}  // namespace deliverd::store::sqlite
