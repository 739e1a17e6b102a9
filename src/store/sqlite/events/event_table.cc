#include "store/sqlite/events/event_table.h"

#include <map>
#include <utility>

#include "base/text.h"
#include "base/try.h"
#include "store/event_row.h"
#include "store/sqlite/events/statements.h"

namespace deliverd::store::sqlite {
namespace {

struct Column {
    std::string type;  // as declared, in small letters
    bool not_null = false;
};

/// Whether all columns that are in the migration's indexes have the names that they have there.
bool indexes_fit(const EventColumns& columns) {
    const EventColumns ours;
    for (const auto column : {&EventColumns::id, &EventColumns::aggregate_id, &EventColumns::created_at,
                              &EventColumns::published, &EventColumns::published_at, &EventColumns::retry_count,
                              &EventColumns::next_attempt_at, &EventColumns::dead_at}) {
        if (columns.*column != ours.*column) return false;
    }
    return true;
}

}  // namespace

Result<TableShape> read_shape(Handle& handle, const EventTable& table) {
    const TablePlace place = TablePlace::of(table, "main");
    std::map<std::string, Column> columns;  // by their names in small letters, because SQLite ignores case in names
    TRY(handle.each(
        events::sql::table_columns,
        [&](const SqliteStatement& row) {
            columns.emplace(ascii_lower(row.get<std::string>(0)),
                            Column{ascii_lower(row.get<std::string>(1)), row.get<bool>(2)});
        },
        place.table, place.schema));
    const auto find = [&](const std::string& name) {
        const auto found = columns.find(ascii_lower(name));
        return found == columns.end() ? nullptr : &found->second;
    };
    const auto may_be_null = [&](const std::string& name) { return find(name) == nullptr || !find(name)->not_null; };

    const EventColumns& names = table.columns;
    TableShape shape;
    shape.there = !columns.empty();
    // By SQLite's own rule a column holds whole numbers if its declared type has "int" in it.
    if (const Column* id = find(names.id)) shape.number_ids = id->type.find("int") != std::string::npos;
    shape.nulls = {may_be_null(names.aggregate_id), may_be_null(names.published), may_be_null(names.retry_count)};
    shape.missing = mapped_columns(names);
    std::erase_if(shape.missing, [&](const std::string& name) { return find(name) != nullptr; });
    if (place.schema == "main" && ascii_lower(place.table) == "outbox" && indexes_fit(names)) {
        // The table may be older than the migration, which then made no indexes.
        constexpr std::int64_t kOurs = 6;
        TRY_ASSIGN(const auto found, handle.value<std::int64_t>(events::sql::own_indexes));
        shape.own_indexes = found == kOurs;
    }
    return shape;
}

Result<void> check_row_id(Handle& handle, const EventTable& table, std::string_view argument, const RowId& row_id) {
    if (sequence_of(row_id)) return {};
    TRY_ASSIGN(const auto shape, read_shape(handle, table));
    if (!shape.number_ids && !row_id.empty()) return {};
    return bad_argument(std::string(argument) + " is \"" + one_line(row_id) + "\", which is no id of table " +
                        table.table);
}

Result<std::vector<Finding>> inspect_table(Handle& handle, const EventTable& table) {
    const auto one = [](bool ok, std::string message) {
        return std::vector<Finding>{{"event table", ok, std::move(message)}};
    };
    TRY_ASSIGN(const auto shape, read_shape(handle, table));
    if (!shape.there) {
        return one(false, "there is no table " + table.table + ": create it, or set the lane's `table:`");
    }
    if (!shape.missing.empty()) {
        return one(false, "table " + table.table + " has no column " + listed(shape.missing) +
                              ": add what is missing, or map the names with the lane's `columns:`");
    }
    const char* how = shape.own_indexes  ? "by its own indexes"
                      : shape.number_ids ? "by its id; an index on (aggregate, id) helps when aggregates fail"
                                         : "by ids that are not numbers: there is no order within an aggregate";
    return one(true, "table " + table.table + " can be relayed, " + how);
}

}  // namespace deliverd::store::sqlite
