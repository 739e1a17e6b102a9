#include "store/sqlite/letters/lane_letters.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/event_row.h"
#include "store/letter_rules.h"
#include "store/record_headers.h"
#include "store/settle_batch.h"
#include "store/sql_text.h"
#include "store/sqlite/file/row_id.h"

namespace deliverd::store::sqlite {
namespace {

#define DELIVERD_NOW "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"

/// 1 lane, 2 row, 3 error, 4 error class, 5 worker, 6 headers, 7 payload as text or NULL, 8 its bytes, 9 aggregate, 10
/// the event's id or NULL. Whether it is the same message, or one whose row has the same id, a trigger decides (0007).
constexpr std::string_view kEventLetter =
    "insert into dlq_messages (original_topic, source, lane, outbox, outbox_row_id, error_message, error_class,"
    " producer, record_headers, payload, record_value, record_key, event_id)"
    " values (?1, 'lane:' || ?1, ?1, 'events', ?2, coalesce(nullif(?3, ''), 'unknown error'), nullif(?4, ''), ?5, ?6,"
    " iif(json_valid(?7), ?7, null), ?8, ?9, ?10)"
    " on conflict (lane, outbox, outbox_row_id) where lane is not null do update set"
    " status = iif(dlq_messages.retry_count < dlq_messages.max_retries, excluded.status, 'DEAD'), in_doubt = 0,"
    " error_message = excluded.error_message, error_class = excluded.error_class, producer = excluded.producer,"
    " record_headers = excluded.record_headers, payload = excluded.payload, record_value = excluded.record_value,"
    " record_key = excluded.record_key, event_id = coalesce(excluded.event_id, dlq_messages.event_id),"
    " retry_owner = null, retry_expires_at = null, updated_at = " DELIVERD_NOW;

constexpr std::string_view kKeepTable =
    "insert into deliverd_event_tables (lane, table_name, id_column, published_column, retry_count_column,"
    " next_attempt_at_column, dead_at_column) values (?1, ?2, ?3, nullif(?4, ''), nullif(?5, ''), nullif(?6, ''),"
    " nullif(?7, '')) on conflict (lane) do update set table_name = excluded.table_name,"
    " id_column = excluded.id_column, published_column = excluded.published_column,"
    " retry_count_column = excluded.retry_count_column, next_attempt_at_column = excluded.next_attempt_at_column,"
    " dead_at_column = excluded.dead_at_column";

constexpr std::string_view kTable =
    "select table_name, id_column, published_column, retry_count_column, next_attempt_at_column, dead_at_column"
    " from deliverd_event_tables where lane = ?1";

/// 1 row.
constexpr std::string_view kReturnMemory =
    "update outbox_memory set status = 'pending', retry_count = 0, next_attempt_at = " DELIVERD_NOW
    ", locked_at = null, locked_by = null, updated_at = " DELIVERD_NOW " where outbox_id = ?1 and status = 'dead'";

/// 1 lane, 2 row.
constexpr std::string_view kReturnFailure =
    "update deliverd_event_failures set dead_at = null, retry_count = 1, next_attempt_at = null"
    " where lane = ?1 and row_id = ?2 and dead_at is not null";

/// 1 outbox, 2 row's number or 0, 3 what it is called where that is no number, 4 actor.
constexpr std::string_view kAuditLetter =
    "insert into outbox_audit (outbox, outbox_id, idempotency_key, reason, status_from, status_to, actor)"
    " values (?1, ?2, ?3, 'dead_letter_returned', 'dead', 'pending', ?4)";

#undef DELIVERD_NOW

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
    auto statement =
        handle.prepared("select cast(" + quoted(columns.payload) + " as blob), " + metadata + ", " + event_id +
                        " from " + quoted_table(table.table) + " where " + quoted(columns.id) + " = ?1");
    if (!statement) return Failure(std::move(statement.error()));
    bind_row_id(**statement, 1, row_id);
    EventCells cells;
    auto read = each_row(**statement, [&](const SqliteStatement& row) {
        cells = {row.optional_text(0), std::string(row.text(1)), row.optional_text(2)};
    });
    if (!read) return Failure(std::move(read.error()));
    return cells;
}

std::string headers_of(const EventCells& cells) {
    std::vector<RecordHeader> headers;
    for (auto& [name, value] : event_headers(cells.metadata)) headers.push_back({std::move(name), std::move(value)});
    return record_headers_json(headers);
}

Result<void> keep_table(Handle& handle, const EventTable& table) {
    auto statement = handle.prepared(kKeepTable);
    if (!statement) return Failure(std::move(statement.error()));
    const EventColumns& columns = table.columns;
    int index = 0;
    for (const std::string* text : {&table.lane, &table.table, &columns.id, &columns.published, &columns.retry_count,
                                    &columns.next_attempt_at, &columns.dead_at}) {
        (*statement)->bind(++index, std::string_view(*text));
    }
    return (*statement)->run();
}

Result<std::optional<EventTable>> table_of(Handle& handle, std::string_view lane) {
    auto statement = handle.prepared(kTable);
    if (!statement) return Failure(std::move(statement.error()));
    std::optional<EventTable> table;
    auto read = each_row((*statement)->bind(1, lane), [&](const SqliteStatement& row) {
        table.emplace();
        table->lane = lane;
        table->table = row.text(0);
        EventColumns& columns = table->columns;
        columns.id = row.text(1);
        columns.published = row.text(2);
        columns.retry_count = row.text(3);
        columns.next_attempt_at = row.text(4);
        columns.dead_at = row.text(5);
    });
    if (!read) return Failure(std::move(read.error()));
    return table;
}

/// Whether the row is still there to be sent, dead or not.
Result<bool> is_unpublished(Handle& handle, const EventTable& table, const RowId& row_id) {
    const std::string& published = table.columns.published;
    auto statement =
        handle.prepared("select 1 from " + quoted_table(table.table) + " where " + quoted(table.columns.id) + " = ?1" +
                        (published.empty() ? "" : " and not " + quoted(published)));
    if (!statement) return Failure(std::move(statement.error()));
    bind_row_id(**statement, 1, row_id);
    bool found = false;
    auto read = each_row(**statement, [&](const SqliteStatement&) { found = true; });
    if (!read) return Failure(std::move(read.error()));
    return found;
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
    auto table = table_of(handle, row.lane);
    if (!table) return Failure(std::move(table.error()));
    if (*table && !(*table)->columns.dead_at.empty()) {
        auto statement = handle.prepared(return_event_sql(**table));
        if (!statement) return Failure(std::move(statement.error()));
        bind_row_id(**statement, 1, row.row_id);
        if (auto done = (*statement)->run(); !done) return Failure(std::move(done.error()));
        if (handle.changes() == 1) return true;
    } else if (*table) {
        auto there = is_unpublished(handle, **table, row.row_id);
        if (!there || !*there) return there;
    }
    auto statement = handle.prepared(kReturnFailure);
    if (!statement) return Failure(std::move(statement.error()));
    (*statement)->bind(1, std::string_view(row.lane)).bind(2, std::string_view(row.row_id));
    if (auto done = (*statement)->run(); !done) return Failure(std::move(done.error()));
    return handle.changes() == 1;
}

Result<bool> return_memory(Handle& handle, const LaneRow& row) {
    const auto id = sequence_of(row.row_id);
    if (!id) return false;
    auto statement = handle.prepared(kReturnMemory);
    if (!statement) return Failure(std::move(statement.error()));
    if (auto done = (*statement)->bind(1, *id).run(); !done) return Failure(std::move(done.error()));
    return handle.changes() == 1;
}

}  // namespace

Result<void> write_row_letter(Handle& handle, std::string_view sql, std::int64_t row_id, std::string_view worker_id,
                              std::string_view lane) {
    auto statement = handle.prepared(sql);
    if (!statement) return Failure(std::move(statement.error()));
    return (*statement)->bind(1, row_id).bind(2, worker_id).bind(3, lane).run();
}

Result<void> write_event_letter(Handle& handle, const EventTable& table, std::string_view worker_id,
                                const EventSettlement& settlement) {
    auto cells = read_cells(handle, table, settlement.row_id);
    if (!cells) return Failure(std::move(cells.error()));
    if (auto kept = keep_table(handle, table); !kept) return kept;
    auto statement = handle.prepared(kEventLetter);
    if (!statement) return Failure(std::move(statement.error()));
    const std::optional<std::string> error = settle_note(settlement.settlement);
    const std::string_view error_class = error ? error_class_of(*error) : std::string_view();
    const std::string headers = headers_of(*cells);
    const std::optional<std::string> key = settlement.aggregate_id;
    (*statement)->bind(1, std::string_view(table.lane)).bind(2, std::string_view(settlement.row_id)).bind(3, error);
    (*statement)->bind(4, error_class).bind(5, worker_id).bind(6, std::string_view(headers));
    return (*statement)
        ->bind(7, cells->payload)
        .bind_blob(8, cells->payload)
        .bind_blob(9, key)
        .bind(10, cells->event_id)
        .run();
}

Result<std::string> return_row(Handle& handle, const LaneRow& row, std::string_view actor) {
    if (row.outbox != "memory" && row.outbox != "events") return "a row of " + row.outbox + " does not go back";
    auto returned = row.outbox == "memory" ? return_memory(handle, row) : return_event(handle, row);
    if (!returned) return Failure(std::move(returned.error()));
    if (!*returned) return std::string(kGone);
    auto statement = handle.prepared(kAuditLetter);
    if (!statement) return Failure(std::move(statement.error()));
    const std::optional<std::int64_t> number = sequence_of(row.row_id);
    const std::optional<std::string> other_id = number ? std::nullopt : std::optional<std::string>(row.row_id);
    (*statement)->bind(1, std::string_view(row.outbox)).bind(2, number.value_or(0)).bind(3, other_id);
    if (auto noted = (*statement)->bind(4, actor).run(); !noted) return Failure(std::move(noted.error()));
    return std::string();
}

}  // namespace deliverd::store::sqlite
