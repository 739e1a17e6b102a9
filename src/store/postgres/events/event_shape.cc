#include "store/postgres/events/event_shape.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/try.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/events/statements.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
Result<EventShape> read_shape(Connection& connection, const TablePlace& place, const EventColumns& columns) {
    static const Statement kShape{"events_table_shape", events::sql::table_shape};
    Params params(place.schema, place.table, mapped_columns(columns));
    TRY_ASSIGN(auto result, connection.run(Step{&kShape, std::move(params)}, Effect::read));
    EventShape shape;
    for (const Row& row : rows_of(result.get())) {
        shape.there = true;
        std::string strategy;
        std::optional<std::string> name;
        ColumnShape column;
        row.read(shape.kind, strategy, shape.schema_usable, shape.missing_grants, shape.role, name);
        shape.range_partitioned = strategy == "r";
        if (!name) continue;  // the table has none of the columns
        row.read_from(6, column.type, column.spelt, column.not_null);
        shape.columns[*name] = std::move(column);
    }
    return shape;
}

Result<void> check_shape(const EventShape& shape, const TablePlace& place, const EventColumns& columns) {
    if (!shape.there) {
        return bad_argument("there is no table " + place.text() +
                            ": run `deliverd migrate`, or correct the lane's table");
    }
    if (shape.kind != "r" && shape.kind != "p") {
        return bad_argument(place.text() + " is not a table: correct the lane's table");
    }
    std::vector<std::string> missing = mapped_columns(columns);
    std::erase_if(missing, [&](const std::string& name) { return shape.columns.contains(name); });
    if (!missing.empty()) {
        return bad_argument("the table " + place.text() + " has no column " + listed(missing) +
                            ": name them in the lane's `columns`, or write \"\" for a column that does not exist");
    }
    const auto check_type = [&](const std::string& name, std::initializer_list<std::string_view> types,
                                const char* wanted) -> Result<void> {
        if (name.empty() || std::ranges::find(types, shape.column(name).type) != types.end()) return {};
        return bad_argument("the column " + name + " of " + place.text() + " is " + wanted + " but " +
                            shape.column(name).spelt);
    };
    TRY(check_type(columns.id, {"int8", "int4", "int2", "uuid"}, "neither a number nor a uuid"));
    for (const std::string* name :
         {&columns.created_at, &columns.published_at, &columns.next_attempt_at, &columns.dead_at}) {
        TRY(check_type(*name, {"timestamptz", "timestamp"}, "not a timestamp"));
    }
    return check_type(columns.published, {"bool"}, "not boolean");
}

IdKind id_kind(const EventShape& shape, const EventColumns& columns) {
    ASSERT(shape.columns.contains(columns.id));
    return shape.column(columns.id).type == "uuid" ? IdKind::uuid : IdKind::number;
}

std::vector<Finding> findings_of(const EventShape& shape, const TablePlace& place, const EventColumns& columns) {
    const std::string name = place.text();
    const auto fit = check_shape(shape, place, columns);
    if (!fit) return {{"event table", false, fit.error().message}};
    std::vector<Finding> findings = {{"event table", true, name + " exists and has its columns"}};
    std::string grants;
    if (!shape.schema_usable) grants += "grant usage on schema " + quoted(place.schema) + " to " + shape.role + "; ";
    if (!shape.missing_grants.empty()) {
        grants += "grant " + shape.missing_grants + " on " + place.quoted_name() + " to " + shape.role + "; ";
    }
    findings.push_back({"event privileges", grants.empty(),
                        grants.empty() ? "the user has all privileges needed on " + name
                                       : "the user lacks privileges; run as the owner of the table: " + grants});
    return findings;
}

}  // namespace deliverd::store::postgres
