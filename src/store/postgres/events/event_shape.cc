#include "store/postgres/events/event_shape.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/assert.h"
#include "base/try.h"
#include "deliverd/error_codes.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/events/statements.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

bool one_of(std::string_view type, std::initializer_list<std::string_view> types) {
    return std::ranges::find(types, type) != types.end();
}

}  // namespace

TablePlace TablePlace::of(const EventTable& table, const std::string& default_schema) {
    const std::size_t dot = table.table.find('.');
    if (dot == std::string::npos) return {default_schema, table.table};
    return {table.table.substr(0, dot), table.table.substr(dot + 1)};
}

std::string TablePlace::quoted_name() const {
    return quoted(schema) + "." + quoted(table);
}

std::vector<std::string> mapped_columns(const EventColumns& columns) {
    std::vector<std::string> names = {
        columns.id,          columns.aggregate_id,    columns.aggregate_type, columns.event_type, columns.payload,
        columns.event_id,    columns.metadata,        columns.created_at,     columns.published,  columns.published_at,
        columns.retry_count, columns.next_attempt_at, columns.last_error,     columns.dead_at};
    std::erase(names, "");
    return names;
}

Result<EventShape> read_shape(Connection& connection, const TablePlace& place, const EventColumns& columns) {
    static const Statement kShape{"events_table_shape", events::sql::table_shape};
    const std::vector<std::string> names = mapped_columns(columns);
    const Params params(place.schema, place.table, std::vector<std::optional<std::string>>(names.begin(), names.end()));
    TRY_ASSIGN(auto result, connection.run(Step{&kShape, &params}, Effect::read, connection.statement_deadline()));
    EventShape shape;
    for (int row = 0; row < PQntuples(result.get()); ++row) {
        shape.there = true;
        std::string strategy;
        std::optional<std::string> name;
        ColumnShape column;
        read_row(result.get(), row, shape.kind, strategy, shape.schema_usable, shape.missing_grants, shape.role, name);
        shape.range_partitioned = strategy == "r";
        if (!name) continue;
        read_cell(result.get(), row, 6, column.type);
        read_cell(result.get(), row, 7, column.spelt);
        read_cell(result.get(), row, 8, column.not_null);
        shape.columns[*name] = std::move(column);
    }
    return shape;
}

Result<void> check_shape(const EventShape& shape, const TablePlace& place, const EventColumns& columns) {
    const auto refuse = [](std::string why) { return permanent(codes::kBadArgument, std::move(why)); };
    if (!shape.there) {
        return refuse("there is no table " + place.text() + ": run `deliverd migrate`, or correct the lane's table");
    }
    if (shape.kind != "r" && shape.kind != "p")
        return refuse(place.text() + " is not a table: correct the lane's table");
    std::string missing;
    for (const std::string& name : mapped_columns(columns)) {
        if (!shape.columns.contains(name)) missing += (missing.empty() ? "" : ", ") + name;
    }
    if (!missing.empty()) {
        return refuse("the table " + place.text() + " has no column " + missing +
                      ": name them in the lane's `columns`, or write \"\" for a column that does not exist");
    }
    if (!one_of(shape.column(columns.id).type, {"int8", "int4", "int2", "uuid"})) {
        return refuse("the column " + columns.id + " of " + place.text() + " is neither a number nor a uuid but " +
                      shape.column(columns.id).spelt);
    }
    for (const std::string& name :
         {columns.created_at, columns.published_at, columns.next_attempt_at, columns.dead_at}) {
        if (!name.empty() && !one_of(shape.column(name).type, {"timestamptz", "timestamp"})) {
            return refuse("the column " + name + " of " + place.text() + " is not a timestamp but " +
                          shape.column(name).spelt);
        }
    }
    if (!columns.published.empty() && shape.column(columns.published).type != "bool") {
        return refuse("the column " + columns.published + " of " + place.text() + " is not boolean but " +
                      shape.column(columns.published).spelt);
    }
    return {};
}

IdKind id_kind(const EventShape& shape, const EventColumns& columns) {
    ASSERT(shape.columns.contains(columns.id));
    return shape.column(columns.id).type == "uuid" ? IdKind::uuid : IdKind::number;
}

}  // namespace deliverd::store::postgres
