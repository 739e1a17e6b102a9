#include "store/sqlite/letters/lane_letters.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/try.h"
#include "store/event_row.h"
#include "store/letter_rules.h"
#include "store/outbox_row.h"
#include "store/record_headers.h"
#include "store/sql_text.h"
#include "store/sqlite/file/row_id.h"
#include "store/sqlite/letters/statements.h"

namespace deliverd::store::sqlite {
namespace {

EventTable event_table_at(const SqliteStatement& row) {
    EventTable table;
    EventColumns& columns = table.columns;
    row.read(table.table, columns.id, columns.published, columns.retry_count, columns.next_attempt_at, columns.dead_at);
    return table;
}

/// A statement of lane_letters.sql for the table's own names.
std::string of_table(std::string_view sql, const EventTable& table) {
    const EventColumns& columns = table.columns;
    const auto or_else = [](const std::string& column, const char* otherwise) {
        return column.empty() ? otherwise : quoted(column);
    };
    return filled(sql, {{"table", quoted_table(table.table)},
                        {"id", quoted(columns.id)},
                        {"payload", quoted(columns.payload)},
                        {"metadata", or_else(columns.metadata, "'{}'")},
                        {"event_id", or_else(columns.event_id, "null")},
                        {"published", or_else(columns.published, "false")},
                        {"dead_at", quoted(columns.dead_at)},
                        {"retry_count", quoted(columns.retry_count)},
                        {"next_attempt_at", quoted(columns.next_attempt_at)}});
}

Result<bool> return_event(Handle& handle, const LaneRow& row) {
    TRY_ASSIGN(const auto table, handle.one(letters::sql::event_table, &event_table_at, row.lane));
    if (table && keeps_failures(table->columns)) {
        TRY_ASSIGN(const auto changed,
                   handle.change(of_table(letters::sql::return_event, *table), row_id_value(row.row_id)));
        if (changed == 1) return true;
    } else if (table) {
        TRY_ASSIGN(const auto unpublished,
                   handle.value<bool>(of_table(letters::sql::unpublished_event, *table), row_id_value(row.row_id)));
        if (!unpublished) return false;
    }
    // Also where the table keeps failures now: the lane may have been without those columns when the event died.
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
    std::optional<std::string> payload;
    std::optional<std::string> event_id;
    std::string metadata;
    TRY(handle.each(
        of_table(letters::sql::event_cells, table),
        [&](const SqliteStatement& row) { row.read(payload, metadata, event_id); }, row_id_value(settlement.row_id)));
    std::vector<RecordHeader> headers;
    for (auto& [name, value] : event_headers(metadata)) headers.push_back({std::move(name), std::move(value)});
    // The letter outlives the configuration: a retry asks the database where the lane's events are, not the lane.
    const EventColumns& columns = table.columns;
    TRY(handle.run(letters::sql::keep_event_table, table.lane, table.table, columns.id, columns.published,
                   columns.retry_count, columns.next_attempt_at, columns.dead_at));
    const std::optional<std::string> error = settle_note(settlement.settlement);
    return handle.run(letters::sql::event_letter, table.lane, settlement.row_id, error,
                      error ? error_class_of(*error) : "", worker_id, record_headers_json(headers), payload,
                      client::Blob{payload}, client::Blob{settlement.aggregate_id}, event_id);
}

Result<bool> return_row(Handle& handle, const LaneRow& row, std::string_view actor) {
    if (row.outbox != "memory" && row.outbox != "events") return false;
    TRY_ASSIGN(const bool returned, row.outbox == "memory" ? return_memory(handle, row) : return_event(handle, row));
    if (!returned) return false;
    const std::optional<std::int64_t> number = sequence_of(row.row_id);
    TRY(handle.run(letters::sql::audit_return, row.outbox, number.value_or(0),
                   number ? std::nullopt : std::optional<std::string_view>(row.row_id), actor));
    return true;
}

}  // namespace deliverd::store::sqlite
