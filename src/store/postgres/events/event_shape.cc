#include "store/postgres/events/event_shape.h"

#include <algorithm>
#include <array>
#include <utility>

#include "store/postgres/connection/cells.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

/// Schema, table, columns. By oid: the functions that take names fail where the schema itself may not be used.
const Statement kShape{
    "events_shape",
    "select c.relkind::text, coalesce(p.partstrat::text, ''), a.attname::text,"
    " case when t.typtype = 'd' then '' else t.typname::text end, format_type(a.atttypid, a.atttypmod), a.attnotnull,"
    " has_schema_privilege(n.oid, 'usage'),"
    " (select string_agg(w.name, ', ') from unnest(array['select', 'insert', 'update', 'delete']) as w (name)"
    "  where not has_table_privilege(c.oid, w.name)), quote_ident(current_user)"
    " from pg_catalog.pg_class c"
    " join pg_catalog.pg_namespace n on n.oid = c.relnamespace"
    " left join pg_catalog.pg_partitioned_table p on p.partrelid = c.oid"
    " left join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped"
    "  and a.attname::text = any ($3::text[])"
    " left join pg_catalog.pg_type t on t.oid = a.atttypid"
    " where n.nspname = $1::text and c.relname = $2::text and c.relkind in ('r', 'p', 'v', 'm', 'f')"};

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
    const std::vector<std::string> names = mapped_columns(columns);
    Params params;
    params.text(place.schema).text(place.table);
    params.text_array(std::vector<std::optional<std::string>>(names.begin(), names.end()));
    auto result = connection.run(Step{&kShape, &params}, Effect::read, connection.statement_deadline());
    if (!result) return Failure(std::move(result.error()));
    EventShape shape;
    const PGresult* rows = result->get();
    for (int row = 0; row < PQntuples(rows); ++row) {
        shape.there = true;
        shape.kind = text_at(rows, row, 0);
        shape.range_partitioned = text_at(rows, row, 1) == "r";
        shape.schema_usable = bool_at(rows, row, 6);
        shape.missing_grants = optional_text_at(rows, row, 7).value_or("");
        shape.role = text_at(rows, row, 8);
        if (null_at(rows, row, 2)) continue;
        shape.columns[std::string(text_at(rows, row, 2))] =
            ColumnShape{std::string(text_at(rows, row, 3)), std::string(text_at(rows, row, 4)), bool_at(rows, row, 5)};
    }
    return shape;
}

Result<void> check_shape(const EventShape& shape, const TablePlace& place, const EventColumns& columns) {
    const auto refuse = [](std::string why) { return permanent("bad_argument", std::move(why)); };
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
                      ": say in the lane's columns what they are called there, or that there is none");
    }
    if (!one_of(shape.column(columns.id).type, {"int8", "int4", "int2", "uuid"})) {
        return refuse("the column " + columns.id + " of " + place.text() + " is neither a number nor a uuid but " +
                      shape.column(columns.id).spelt);
    }
    for (const std::string& name :
         {columns.created_at, columns.published_at, columns.next_attempt_at, columns.dead_at}) {
        if (!name.empty() && !one_of(shape.column(name).type, {"timestamptz", "timestamp"})) {
            return refuse("the column " + name + " of " + place.text() + " is no timestamp but " +
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
    return shape.column(columns.id).type == "uuid" ? IdKind::uuid : IdKind::number;
}

}  // namespace deliverd::store::postgres
