#include "store/sqlite/letters/lane_letters.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/try.h"
#include "store/event_row.h"
#include "store/letter_rules.h"
#include "store/record_headers.h"
#include "store/settle_batch.h"
#include "store/sql_text.h"
#include "store/sqlite/file/row_id.h"
#include "store/sqlite/letters/statements.h"

namespace deliverd::store::sqlite {
namespace {

constexpr const char* kGone = "its row is gone, or no longer dead";

struct EventCells {
    std::optional<std::string> payload;
    std::string metadata;
    std::optional<std::string> event_id;
};

Result<EventCells> read_cells(Handle& handle, const EventTable& table, const RowId& row_id) {
    const EventColumns& columns = table.columns;
    const std::string metadata = columns.metadata.empty() ? "'{}'" : quoted(columns.metadata);
    const std::string event_id = columns.event_id.empty() ? "null" : quoted(columns.event_id);
    EventCells cells;
    TRY(handle.each(
        "select cast(" + quoted(columns.payload) + " as blob), " + metadata + ", " + event_id + " from " +
            quoted_table(table.table) + " where " + quoted(columns.id) + " = ?1",
        [&](const SqliteStatement& row) { row.read(cells.payload, cells.metadata, cells.event_id); },
        row_id_value(row_id)));
    return cells;
}

std::string headers_of(const EventCells& cells) {
    std::vector<RecordHeader> headers;
    for (auto& [name, value] : event_headers(cells.metadata)) headers.push_back({std::move(name), std::move(value)});
    return record_headers_json(headers);
}

Result<void> keep_table(Handle& handle, const EventTable& table) {
    const EventColumns& columns = table.columns;
    return handle.run(letters::sql::keep_event_table, table.lane, table.table, columns.id, columns.published,
                      columns.retry_count, columns.next_attempt_at, columns.dead_at);
}

EventTable event_table_at(const SqliteStatement& row) {
    EventTable table;
    EventColumns& columns = table.columns;
    row.read(table.table, columns.id, columns.published, columns.retry_count, columns.next_attempt_at, columns.dead_at);
    return table;
}

/// Whether the row is still there to be sent, dead or not.
Result<bool> is_unpublished(Handle& handle, const EventTable& table, const RowId& row_id) {
    const std::string& published = table.columns.published;
    TRY_ASSIGN(const auto found,
               handle.value<bool>("select 1 from " + quoted_table(table.table) + " where " + quoted(table.columns.id) +
                                      " = ?1" + (published.empty() ? "" : " and not " + quoted(published)),
                                  row_id_value(row_id)));
    return found.has_value();
}

/// One failure stays counted: that is what keeps the later rows of its aggregate behind it until it was sent. With
/// none, a relay whose position is past it would find them first.
std::string return_event_sql(const EventTable& table) {
    const EventColumns& columns = table.columns;
    return "update " + quoted_table(table.table) + " set " + quoted(columns.dead_at) + " = null, " +
           quoted(columns.retry_count) + " = 1, " + quoted(columns.next_attempt_at) + " = null where " +
           quoted(columns.id) + " = ?1 and " + quoted(columns.dead_at) + " is not null" +
           (columns.published.empty() ? "" : " and not " + quoted(columns.published));
}

Result<bool> return_event(Handle& handle, const LaneRow& row) {
    TRY_ASSIGN(const auto table, handle.one(letters::sql::event_table, &event_table_at, row.lane));
    if (table && !table->columns.dead_at.empty()) {
        TRY_ASSIGN(const auto changed, handle.change(return_event_sql(*table), row_id_value(row.row_id)));
        if (changed == 1) return true;
    } else if (table) {
        TRY_ASSIGN(const bool unpublished, is_unpublished(handle, *table, row.row_id));
        if (!unpublished) return false;
    }
    TRY_ASSIGN(const auto changed, handle.change(letters::sql::return_failure, row.lane, row.row_id));
    return changed == 1;
}

Result<bool> return_memory(Handle& handle, const LaneRow& row) {
    const auto id = sequence_of(row.row_id);
    if (!id) return false;
    TRY_ASSIGN(const auto changed, handle.change(letters::sql::return_memory, *id));
    return changed == 1;
}

}  // namespace

Result<void> write_event_letter(Handle& handle, const EventTable& table, std::string_view worker_id,
                                const EventSettlement& settlement) {
    TRY_ASSIGN(const auto cells, read_cells(handle, table, settlement.row_id));
    TRY(keep_table(handle, table));
    const std::optional<std::string> error = settle_note(settlement.settlement);
    return handle.run(letters::sql::event_letter, table.lane, settlement.row_id, error,
                      error ? error_class_of(*error) : "", worker_id, headers_of(cells), cells.payload,
                      client::Blob{cells.payload}, client::Blob{settlement.aggregate_id}, cells.event_id);
}

Result<std::string> return_row(Handle& handle, const LaneRow& row, std::string_view actor) {
    if (row.outbox != "memory" && row.outbox != "events") return "a row of " + row.outbox + " does not go back";
    TRY_ASSIGN(auto returned, row.outbox == "memory" ? return_memory(handle, row) : return_event(handle, row));
    if (!returned) return std::string(kGone);
    const std::optional<std::int64_t> number = sequence_of(row.row_id);
    TRY(handle.run(letters::sql::audit_return, row.outbox, number.value_or(0),
                   number ? std::nullopt : std::optional<std::string>(row.row_id), actor));
    return std::string();
}

}  // namespace deliverd::store::sqlite
