// What an event table looks like in the catalog: its ids, its columns' types, whether it is partitioned. The relay's
// statements follow from it.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "deliverd/result.h"
#include "store/events.h"
#include "store/postgres/connection/connection.h"

namespace deliverd::store::postgres {

enum class IdKind { number, uuid };

struct ColumnShape {
    std::string type;   // pg_type.typname; empty for a domain
    std::string spelt;  // as a cast names it: character varying(255)
    bool not_null = false;
};

struct EventShape {
    bool there = false;
    bool range_partitioned = false;
    std::string kind;            // pg_class.relkind
    std::string missing_grants;  // "select, update" that this user lacks on the table
    std::string role;            // this user, as it is spelt in SQL
    bool schema_usable = true;
    std::map<std::string, ColumnShape, std::less<>> columns;  // those of EventColumns that exist

    [[nodiscard]] const ColumnShape& column(const std::string& name) const { return columns.at(name); }
};

/// Where an EventTable lies.
struct TablePlace {
    std::string schema;
    std::string table;

    /// "schema.table", or a name in `default_schema`.
    static TablePlace of(const EventTable& table, const std::string& default_schema);
    [[nodiscard]] std::string quoted_name() const;
    /// For people.
    [[nodiscard]] std::string text() const { return schema + "." + table; }
};

/// Names of all mapped columns, those that are not mapped left out.
[[nodiscard]] std::vector<std::string> mapped_columns(const EventColumns& columns);

/// One round trip to the catalog. A table that does not exist is not a failure.
[[nodiscard]] Result<EventShape> read_shape(Connection& connection, const TablePlace& place,
                                            const EventColumns& columns);

/// Refuses what the relay cannot work with, and says what to do (permanent, `bad_argument`): no such table, columns
/// that are missing, an id that is neither a number nor a uuid, a created_at that is not a timestamp.
[[nodiscard]] Result<void> check_shape(const EventShape& shape, const TablePlace& place, const EventColumns& columns);

/// Only for a shape that passed the check.
[[nodiscard]] IdKind id_kind(const EventShape& shape, const EventColumns& columns);

}  // namespace deliverd::store::postgres
