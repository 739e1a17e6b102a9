#include "store/sqlite/letters/letter_rows.h"

#include <chrono>
#include <utility>

#include "base/text.h"
#include "store/memory_message.h"
#include "store/record_headers.h"
#include "store/settle_batch.h"

namespace deliverd::store::sqlite {
namespace {

template <typename Number>
std::optional<Number> number_at(const SqliteStatement& row, int column) {
    if (row.is_null(column)) return std::nullopt;
    return static_cast<Number>(row.integer(column));
}

WallTime time_at(const SqliteStatement& row, int column) {
    return parse_rfc3339(row.text(column)).value_or(WallTime{});
}

/// A row of a lane may hold any bytes, and its letter then holds them too: that is no JSON to show.
std::optional<std::string> json_at(const SqliteStatement& row, int column) {
    if (row.is_null(column) || find_invalid_utf8(row.text(column))) return std::nullopt;
    return std::string(row.text(column));
}

Provenance provenance_at(const SqliteStatement& row) {
    Provenance from;
    from.original_topic = row.text(2);
    from.original_partition = number_at<std::int32_t>(row, 3);
    from.original_offset = number_at<std::int64_t>(row, 4);
    from.error_message = row.text(5);
    from.error_class = row.optional_text(6);
    from.stack_trace = row.optional_text(7);
    from.producer = row.optional_text(8);
    return from;
}

constexpr int kAfterLetter = 27;
constexpr std::string_view kDetailColumns =
    ", m.record_key, m.record_value, m.record_headers, m.record_timestamp_ms, m.record_timestamp_type, m.retry_owner,"
    " m.retry_owner is not null and m.retry_expires_at >= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

RecordTime record_time(std::string_view text) {
    if (text == "created") return RecordTime::created;
    return text == "appended" ? RecordTime::appended : RecordTime::none;
}

StoredLetter stored_letter_at(const SqliteStatement& row) {
    StoredLetter stored;
    Letter& letter = stored.detail.letter;
    letter = letter_at(row);
    Record& record = stored.detail.record;
    record.topic = letter.topic.value_or("");
    record.partition = letter.partition.value_or(0);
    record.offset = letter.offset.value_or(0);
    record.key = row.optional_text(kAfterLetter);
    record.value = row.optional_text(kAfterLetter + 1);
    record.headers = parse_record_headers(row.text(kAfterLetter + 2)).value_or(std::vector<RecordHeader>());
    record.timestamp_ms = row.integer(kAfterLetter + 3);
    record.timestamp_type = record_time(row.text(kAfterLetter + 4));
    stored.retry_owner = row.optional_text(kAfterLetter + 5);
    stored.retry_is_live = row.integer(kAfterLetter + 6) != 0;
    return stored;
}

}  // namespace

Letter letter_at(const SqliteStatement& row) {
    Letter letter;
    letter.id = row.text(0);
    letter.source = row.text(1);
    letter.provenance = provenance_at(row);
    letter.retry_count = static_cast<std::int32_t>(row.integer(9));
    letter.max_retries = static_cast<std::int32_t>(row.integer(10));
    letter.payload = json_at(row, 11);
    letter.status = letter_status(row.text(12)).value_or(LetterStatus::dead);
    letter.created_at = time_at(row, 13);
    letter.updated_at = time_at(row, 14);
    if (!row.is_null(15)) letter.last_retry_at = time_at(row, 15);
    letter.last_retry_error = row.optional_text(16);
    letter.in_doubt = row.integer(17) != 0;
    letter.topic = row.optional_text(18);
    letter.partition = number_at<std::int32_t>(row, 19);
    letter.offset = number_at<std::int64_t>(row, 20);
    if (!row.is_null(21)) {
        letter.lane_row = LaneRow{std::string(row.text(21)), std::string(row.text(22)), std::string(row.text(23))};
    }
    letter.value_bytes = row.integer(24);
    letter.truncated = row.integer(25) != 0;
    letter.unfinished = row.integer(26) != 0;
    return letter;
}

Result<std::optional<StoredLetter>> stored_letter(Handle& handle, std::string_view id) {
    static const std::string kFind = "select " + std::string(kLetterColumns) + std::string(kDetailColumns) +
                                     " from dlq_messages as m where m.id = ?1";
    auto statement = handle.prepared(kFind);
    if (!statement) return Failure(std::move(statement.error()));
    std::optional<StoredLetter> found;
    auto read = each_row((*statement)->bind(1, id), [&](const SqliteStatement& row) { found = stored_letter_at(row); });
    if (!read) return Failure(std::move(read.error()));
    return found;
}

Result<void> audit_letter(Handle& handle, std::string_view id, const LetterStep& step) {
    auto statement = handle.prepared(
        "insert into dlq_audit (message_id, action, actor, status_from, status_to, detail)"
        " values (?1, ?2, ?3, ?4, ?5, ?6)");
    if (!statement) return Failure(std::move(statement.error()));
    (*statement)->bind(1, id).bind(2, step.action).bind(3, step.actor).bind(4, step.status_from);
    return (*statement)->bind(5, step.status_to).bind(6, step.detail).run();
}

std::string letter_note(std::string_view text) {
    return shorten(one_line(storable(text)), kMaxStoredErrorBytes);
}

std::string letter_time(WallTime time) {
    return rfc3339_millis(std::chrono::ceil<std::chrono::milliseconds>(time));
}

}  // namespace deliverd::store::sqlite
