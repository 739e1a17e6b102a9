#include "store/sqlite/events/event_table.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"
#include "store/event_row.h"
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

std::string lower(std::string text) {
    for (char& c : text) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return text;
}

struct Column {
    std::string type;  // as declared, in small letters
    bool not_null = false;
    [[nodiscard]] bool whole_number() const { return type.find("int") != std::string::npos; }
};
using Columns = std::map<std::string, Column>;

/// By their names in small letters: SQLite's names know no case.
Result<Columns> columns_of(Handle& handle, const EventTable& table) {
    auto statement = handle.prepared("select name, type, \"notnull\" from pragma_table_info(?1, ?2)");
    if (!statement) return Failure(std::move(statement.error()));
    const TableName name = name_of(table);
    (*statement)->bind(1, std::string_view(name.name)).bind(2, std::string_view(name.schema));
    Columns columns;
    auto read = each_row(**statement, [&](const SqliteStatement& row) {
        columns.emplace(lower(std::string(row.text(0))), Column{lower(std::string(row.text(1))), row.integer(2) != 0});
    });
    if (!read) return Failure(std::move(read.error()));
    return columns;
}

std::vector<std::string> missing_columns(const Columns& found, const EventColumns& wanted) {
    std::vector<std::string> missing;
    for (const std::string* name :
         {&wanted.id, &wanted.aggregate_id, &wanted.aggregate_type, &wanted.event_type, &wanted.payload,
          &wanted.event_id, &wanted.metadata, &wanted.created_at, &wanted.published, &wanted.published_at,
          &wanted.retry_count, &wanted.next_attempt_at, &wanted.last_error, &wanted.dead_at}) {
        if (!name->empty() && !found.contains(lower(*name))) missing.push_back(*name);
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
    auto columns = columns_of(handle, table);
    if (!columns) return Failure(std::move(columns.error()));
    const auto may_be_null = [&](const std::string& name) {
        const auto column = columns->find(lower(name));
        return column == columns->end() || !column->second.not_null;
    };
    const EventColumns& names = table.columns;
    return EventNulls{may_be_null(names.aggregate_id), may_be_null(names.published), may_be_null(names.retry_count)};
}

Result<bool> has_our_indexes(Handle& handle, const EventTable& table) {
    const TableName name = name_of(table);
    const EventColumns ours;
    const EventColumns& columns = table.columns;
    const bool same = name.schema == "main" && lower(name.name) == "outbox" && columns.id == ours.id &&
                      columns.aggregate_id == ours.aggregate_id && columns.created_at == ours.created_at &&
                      columns.published == ours.published && columns.published_at == ours.published_at &&
                      columns.retry_count == ours.retry_count && columns.next_attempt_at == ours.next_attempt_at &&
                      columns.dead_at == ours.dead_at;
    if (!same) return false;
    auto statement = handle.prepared(
        "select count(*) from sqlite_schema where type = 'index' and tbl_name = 'outbox' and name in ('outbox_open',"
        " 'outbox_open_aggregate', 'outbox_waiting_aggregate', 'outbox_waiting_due', 'outbox_dead', "
        "'outbox_published')");
    if (!statement) return Failure(std::move(statement.error()));
    constexpr std::int64_t kOurs = 6;
    bool all = false;
    auto read = each_row(**statement, [&](const SqliteStatement& row) { all = row.integer(0) == kOurs; });
    if (!read) return Failure(std::move(read.error()));
    return all;
}

Result<bool> has_number_ids(Handle& handle, const EventTable& table) {
    auto columns = columns_of(handle, table);
    if (!columns) return Failure(std::move(columns.error()));
    const auto id = columns->find(lower(table.columns.id));
    return id == columns->end() || id->second.whole_number();
}

Result<void> check_row_id(Handle& handle, const EventTable& table, std::string_view argument, const RowId& row_id) {
    if (sequence_of(row_id)) return {};
    auto numbers = has_number_ids(handle, table);
    if (!numbers) return Failure(std::move(numbers.error()));
    if (!*numbers && !row_id.empty()) return {};
    return permanent("bad_argument", std::string(argument) + " is \"" + one_line(row_id) +
                                         "\", which is no id of table " + table.table);
}

Result<std::vector<Finding>> inspect_table(Handle& handle, const EventTable& table) {
    constexpr const char* kCheck = "event table";
    auto columns = columns_of(handle, table);
    if (!columns) return Failure(std::move(columns.error()));
    if (columns->empty()) {
        return std::vector<Finding>{
            {kCheck, false, "there is no table " + table.table + ": create it, or set the lane's `table:`"}};
    }
    if (const auto missing = missing_columns(*columns, table.columns); !missing.empty()) {
        return std::vector<Finding>{{kCheck, false,
                                     "table " + table.table + " has no column " + listed(missing) +
                                         ": add what is missing, or map the names with the lane's `columns:`"}};
    }
    auto ours = has_our_indexes(handle, table);
    if (!ours) return Failure(std::move(ours.error()));
    const bool numbers = columns->at(lower(table.columns.id)).whole_number();
    return std::vector<Finding>{
        {kCheck, true, "table " + table.table + " can be relayed, " + how_it_is_read(*ours, numbers)}};
}

}  // namespace deliverd::store::sqlite
