#include "store/sqlite/events/event_table.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"
#include "base/try.h"
#include "store/event_row.h"
#include "store/sqlite/events/statements.h"
#include "store/sqlite/file/row_id.h"

namespace deliverd::store::sqlite {
namespace {

struct TableName {
    std::string schema = "main";
    std::string name;
};

TableName name_of(const EventTable& table) {
    const std::size_t dot = table.table.find('.');
    if (dot == std::string::npos) return {"main", table.table};
    return {table.table.substr(0, dot), table.table.substr(dot + 1)};
}

struct Column {
    std::string type;  // as declared, in small letters
    bool not_null = false;
    [[nodiscard]] bool whole_number() const { return type.find("int") != std::string::npos; }
};
using Columns = std::map<std::string, Column>;

/// By their names in small letters: SQLite's names know no case.
Result<Columns> columns_of(Handle& handle, const EventTable& table) {
    const TableName name = name_of(table);
    Columns columns;
    TRY(handle.each(
        events::sql::table_columns,
        [&](const SqliteStatement& row) {
            columns.emplace(ascii_lower(row.get<std::string>(0)),
                            Column{ascii_lower(row.get<std::string>(1)), row.get<bool>(2)});
        },
        name.name, name.schema));
    return columns;
}

std::vector<std::string> missing_columns(const Columns& found, const EventColumns& wanted) {
    std::vector<std::string> missing;
    for (const std::string* name :
         {&wanted.id, &wanted.aggregate_id, &wanted.aggregate_type, &wanted.event_type, &wanted.payload,
          &wanted.event_id, &wanted.metadata, &wanted.created_at, &wanted.published, &wanted.published_at,
          &wanted.retry_count, &wanted.next_attempt_at, &wanted.last_error, &wanted.dead_at}) {
        if (!name->empty() && !found.contains(ascii_lower(*name))) missing.push_back(*name);
    }
    return missing;
}

std::string listed(const std::vector<std::string>& names) {
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    return list;
}

/// Where an index begins with the id, the reading starts where it should.
std::string how_it_is_read(bool ours, bool numbers) {
    if (ours) return "by its own indexes";
    if (numbers) return "by its id; an index on (aggregate, id) helps when aggregates fail";
    return "by ids that are not numbers: there is no order within an aggregate";
}

}  // namespace

Result<EventNulls> nulls_of(Handle& handle, const EventTable& table) {
    TRY_ASSIGN(auto columns, columns_of(handle, table));
    const auto may_be_null = [&](const std::string& name) {
        const auto column = columns.find(ascii_lower(name));
        return column == columns.end() || !column->second.not_null;
    };
    const EventColumns& names = table.columns;
    return EventNulls{may_be_null(names.aggregate_id), may_be_null(names.published), may_be_null(names.retry_count)};
}

Result<bool> has_our_indexes(Handle& handle, const EventTable& table) {
    const TableName name = name_of(table);
    const EventColumns ours;
    const EventColumns& columns = table.columns;
    const bool same = name.schema == "main" && ascii_lower(name.name) == "outbox" && columns.id == ours.id &&
                      columns.aggregate_id == ours.aggregate_id && columns.created_at == ours.created_at &&
                      columns.published == ours.published && columns.published_at == ours.published_at &&
                      columns.retry_count == ours.retry_count && columns.next_attempt_at == ours.next_attempt_at &&
                      columns.dead_at == ours.dead_at;
    if (!same) return false;
    constexpr std::int64_t kOurs = 6;
    TRY_ASSIGN(const auto found, handle.value<std::int64_t>(events::sql::own_indexes));
    return found == kOurs;
}

Result<bool> has_number_ids(Handle& handle, const EventTable& table) {
    TRY_ASSIGN(auto columns, columns_of(handle, table));
    const auto id = columns.find(ascii_lower(table.columns.id));
    return id == columns.end() || id->second.whole_number();
}

Result<void> check_row_id(Handle& handle, const EventTable& table, std::string_view argument, const RowId& row_id) {
    if (sequence_of(row_id)) return {};
    TRY_ASSIGN(auto numbers, has_number_ids(handle, table));
    if (!numbers && !row_id.empty()) return {};
    return bad_argument(std::string(argument) + " is \"" + one_line(row_id) + "\", which is no id of table " +
                        table.table);
}

Result<std::vector<Finding>> inspect_table(Handle& handle, const EventTable& table) {
    constexpr const char* kCheck = "event table";
    TRY_ASSIGN(auto columns, columns_of(handle, table));
    if (columns.empty()) {
        return std::vector<Finding>{
            {kCheck, false, "there is no table " + table.table + ": create it, or set the lane's `table:`"}};
    }
    if (const auto missing = missing_columns(columns, table.columns); !missing.empty()) {
        return std::vector<Finding>{{kCheck, false,
                                     "table " + table.table + " has no column " + listed(missing) +
                                         ": add what is missing, or map the names with the lane's `columns:`"}};
    }
    TRY_ASSIGN(auto ours, has_our_indexes(handle, table));
    const bool numbers = columns.at(ascii_lower(table.columns.id)).whole_number();
    return std::vector<Finding>{
        {kCheck, true, "table " + table.table + " can be relayed, " + how_it_is_read(ours, numbers)}};
}

}  // namespace deliverd::store::sqlite
