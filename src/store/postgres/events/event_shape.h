// What an event table looks like in the catalog: its ids, its columns' types, whether it is partitioned. The relay's
// statements depend on it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "deliverd/result.h"
#include "store/event_row.h"
#include "store/events.h"
#include "store/postgres/connection/connection.h"

namespace deliverd::store::postgres {

enum class IdKind { number, uuid };

struct ColumnShape {
    std::string type;   // pg_type.typname; empty for a domain
    std::string spelt;  // as a cast spells it: character varying(255)
    bool not_null = false;
};

struct EventShape {
    bool there = false;
    bool range_partitioned = false;
    std::string kind;            // pg_class.relkind
    std::string missing_grants;  // "select, update" that this user lacks on the table
    std::string role;            // this user, quoted for SQL
    bool schema_usable = true;
    std::map<std::string, ColumnShape, std::less<>> columns;  // those of EventColumns that exist

    [[nodiscard]] const ColumnShape& column(const std::string& name) const { return columns.at(name); }
};

/// One round trip to the catalog. A table that does not exist is not a failure.
[[nodiscard]] Result<EventShape> read_shape(Connection& connection, const TablePlace& place,
                                            const EventColumns& columns);

/// Refuses what the relay cannot work with, and says what to do (permanent, `bad_argument`): no such table, columns
/// that are missing, an id that is neither a number nor a uuid, a created_at that is not a timestamp.
[[nodiscard]] Result<void> check_shape(const EventShape& shape, const TablePlace& place, const EventColumns& columns);

/// Only for a shape that passed the check.
[[nodiscard]] IdKind id_kind(const EventShape& shape, const EventColumns& columns);

/// EventOutbox::inspect().
[[nodiscard]] std::vector<Finding> findings_of(const EventShape& shape, const TablePlace& place,
                                               const EventColumns& columns);

}  // namespace deliverd::store::postgres
