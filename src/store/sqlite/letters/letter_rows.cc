#include <chrono>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/text.h"
#include "base/try.h"
#include "base/uuid.h"
#include "client/sql_values.h"
#include "store/event_row.h"
#include "store/letter_columns.h"
#include "store/outbox_row.h"
#include "store/record_headers.h"
#include "store/sql_text.h"
#include "store/sqlite/file/row_values.h"
#include "store/sqlite/letters/dead_letters.h"
#include "store/sqlite/letters/statements.h"

namespace deliverd::store::sqlite {
namespace {

StoredLetter stored_letter_at(const SqliteStatement& row) {
    StoredLetter stored{detail_at(row), {}};
    row.read_from(kDetailColumns, stored.retry_owner, stored.retry_is_live);
    drop_unreadable_payload(stored.detail.letter);
    return stored;
}

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

/// Puts the row of a letter back to what is to be sent, due at once. False: it is gone or no longer dead, or its outbox
/// takes none back.
Result<bool> return_row(Handle& handle, const LaneRow& row, std::string_view actor) {
    if (row.outbox != "memory" && row.outbox != "events") return false;
    TRY_ASSIGN(const bool returned, row.outbox == "memory" ? return_memory(handle, row) : return_event(handle, row));
    if (!returned) return false;
    const std::optional<std::int64_t> number = sequence_of(row.row_id);
    TRY(handle.run(letters::sql::audit_return, row.outbox, number.value_or(0),
                   number ? std::nullopt : std::optional<std::string_view>(row.row_id), actor));
    return true;
}

std::string filters(const LetterQuery& query) {
    std::string sql;
    if (query.status) sql += " and m.status = ?2";
    if (query.source) sql += " and m.source = ?3";
    if (query.error_class) sql += " and m.error_class = ?4";
    if (query.from) sql += " and m.created_at >= ?5";
    if (query.until) sql += " and m.created_at < ?6";
    if (query.text) sql += " and (instr(lower(m.error_message), ?7) > 0 or instr(lower(m.payload), ?7) > 0)";
    if (query.key) sql += " and m.record_key = ?8";
    if (query.after) sql += " and (m.created_at, m.id) < (?9, ?10)";
    return sql;
}

/// The letters by one index, newest first. The index is named, so that the plan does not depend on statistics: another
/// one would not have the letters in their order.
std::string branch(const LetterQuery& query, const std::string& index, const std::string& which) {
    return "select m.created_at, m.id from dlq_messages as m indexed by " + index + " where " + which + filters(query) +
           " order by m.created_at desc, m.id desc limit ?13";
}

std::string keys(const LetterQuery& query) {
    if (query.topic) {
        // Two ranges, since one condition with OR in it would walk over all letters.
        return "select created_at, id from (" + branch(query, "dlq_messages_source_topic", "m.source_topic = ?1") +
               ") union all select created_at, id from (" +
               branch(query, "dlq_messages_original_topic", "m.original_topic = ?1 and m.source_topic is not ?1") + ")";
    }
    // One of the filters has its index; the others are conditions on what that finds.
    const std::string index = query.error_class ? "dlq_messages_error_class"
                              : query.status    ? "dlq_messages_status"
                              : query.source    ? "dlq_messages_source"
                                                : "dlq_messages_newest";
    return branch(query, index, "true");
}

}  // namespace

Result<std::optional<StoredLetter>> stored_letter(Handle& handle, std::string_view id) {
    return handle.one(letters::sql::find_letter, &stored_letter_at, id);
}

void drop_unreadable_payload(Letter& letter) {
    if (letter.payload && find_invalid_utf8(*letter.payload)) letter.payload.reset();
}

Result<void> audit_letter(Handle& handle, std::string_view id, const LetterStep& step) {
    return handle.run(letters::sql::audit_letter, id, step.action, step.actor, step.status_from, step.status_to,
                      step.detail);
}

std::string letter_time(WallTime time) {
    return rfc3339_millis(std::chrono::ceil<std::chrono::milliseconds>(time));
}

Result<RetryClaim> begin_retry_of(Handle& handle, const std::string& id, const RetryRequest& request,
                                  std::string_view redrive_began) {
    RetryClaim claim{id};
    TRY_ASSIGN(auto stored, stored_letter(handle, canonical_uuid(id)));
    if (!stored) return claim;
    const Letter& before = stored->detail.letter;
    const std::string refusal = retry_refusal(before);
    claim.verdict = retry_verdict(before, refusal, stored->retry_is_live);
    claim.reason = retry_reason(claim.verdict, before, refusal);
    if (claim.verdict == RetryVerdict::begun) {
        claim.taken_over = before.unfinished;
        TRY(handle.run(letters::sql::begin_retry, before.id, request.owner, client::time_ahead(request.lease),
                       !claim.taken_over, claim.taken_over, redrive_began));
        // A redrive begins thousands: the line that ends each is enough, except where one may have been published.
        if (redrive_began.empty() || claim.taken_over) {
            LetterStep step{"retry_begun", request.actor, to_string(before.status), "RETRYING"};
            if (claim.taken_over) step.detail = "an earlier retry did not end: it may have been published";
            TRY(audit_letter(handle, before.id, step));
        }
        TRY_ASSIGN(stored, stored_letter(handle, before.id));
        ASSERT(stored);  // in the same transaction
    }
    claim.letter = std::move(stored->detail);
    return claim;
}

Result<std::optional<Letter>> owned_letter(Handle& handle, std::string_view owner, std::string_view id) {
    TRY_ASSIGN(auto stored, stored_letter(handle, canonical_uuid(id)));
    if (!stored || stored->retry_owner != owner) return std::nullopt;
    return std::move(stored->detail.letter);
}

Result<void> end_retry_of(Handle& handle, const Letter& letter, const RetryEffect& effect, std::string_view actor,
                          const RetryEnd& end) {
    const std::string note = letter_note(end.detail);
    std::optional<std::string> error;
    if (end.result == RetryResult::not_tried) error = letter.last_retry_error;
    if (end.result == RetryResult::failed || end.result == RetryResult::in_doubt) error = note;
    TRY(handle.run(letters::sql::end_retry, letter.id, to_string(effect.status), effect.retry_count, effect.in_doubt,
                   error, effect.was_tried));
    LetterStep step{effect.action, actor, to_string(letter.status), to_string(effect.status)};
    if (!note.empty()) step.detail = note;
    return audit_letter(handle, letter.id, step);
}

Result<std::string> return_letter(Handle& handle, const Letter& letter, std::string_view actor) {
    std::string problem(kRowGone);
    if (letter.lane_row) {
        TRY_ASSIGN(const bool returned, return_row(handle, *letter.lane_row, actor));
        if (returned) problem.clear();
    }
    const bool back = problem.empty();
    const RetryEnd end{letter.id, back ? RetryResult::published : RetryResult::failed, problem};
    RetryEffect effect = retry_effect(letter, end.result);
    if (back) effect.action = "returned";
    TRY(end_retry_of(handle, letter, effect, actor, end));
    return problem;
}

Result<void> add_to_redrive(Handle& handle, std::string_view owner, EndCounts counts) {
    const std::int64_t published = counts[RetryResult::published] + counts[RetryResult::unpublished];
    return handle.run(letters::sql::add_to_redrive, owner, published, counts[RetryResult::failed],
                      counts[RetryResult::in_doubt]);
}

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

std::string letter_page_sql(const LetterQuery& query) {
    return filled(letters::sql::letter_page, {{"keys", keys(query)}});
}

std::string letter_total_sql(LetterQuery query) {
    query.after.reset();
    if (!is_counted(query)) return "select count(*) from (select 1 from (" + keys(query) + ") limit ?13)";
    std::string sql = "select coalesce(sum(m.letters), 0) from dlq_counts as m where true";
    if (query.topic) sql += " and (m.topic = ?1 or m.original_topic = ?1)";
    return sql + filters(query);
}

}  // namespace deliverd::store::sqlite
