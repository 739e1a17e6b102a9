#include "store/sqlite/letters/letter_rows.h"

#include <chrono>
#include <utility>

#include "base/text.h"
#include "base/try.h"
#include "store/memory_message.h"
#include "store/record_headers.h"
#include "store/settle_batch.h"
#include "store/sqlite/letters/statements.h"

namespace deliverd::store::sqlite {
namespace {

/// A row of a lane may hold any bytes, and its letter then holds them too: that is no JSON to show.
std::optional<std::string> json_at(const SqliteStatement& row, int column) {
    auto text = row.get<std::optional<std::string>>(column);
    if (text && find_invalid_utf8(*text)) text.reset();
    return text;
}

constexpr int kAfterLetter = 27;
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
    std::string headers;
    std::string time_type;
    row.read_from(kAfterLetter, record.key, record.value, headers, record.timestamp_ms, time_type, stored.retry_owner,
                  stored.retry_is_live);
    record.headers = parse_record_headers(headers).value_or(std::vector<RecordHeader>());
    record.timestamp_type = record_time(time_type);
    return stored;
}

}  // namespace

Letter letter_at(const SqliteStatement& row) {
    Letter letter;
    Provenance& from = letter.provenance;
    row.read(letter.id, letter.source, from.original_topic, from.original_partition, from.original_offset,
             from.error_message, from.error_class, from.stack_trace, from.producer, letter.retry_count,
             letter.max_retries);
    letter.payload = json_at(row, 11);
    std::string status;
    std::optional<std::string> lane;
    LaneRow in_lane;
    row.read_from(12, status, letter.created_at, letter.updated_at, letter.last_retry_at, letter.last_retry_error,
                  letter.in_doubt, letter.topic, letter.partition, letter.offset, lane, in_lane.outbox, in_lane.row_id,
                  letter.value_bytes, letter.truncated, letter.unfinished);
    letter.status = letter_status(status).value_or(LetterStatus::dead);
    if (lane) letter.lane_row = LaneRow{std::move(*lane), std::move(in_lane.outbox), std::move(in_lane.row_id)};
    return letter;
}

Result<std::optional<StoredLetter>> stored_letter(Handle& handle, std::string_view id) {
    return handle.one(letters::sql::find_letter, &stored_letter_at, id);
}

Result<void> audit_letter(Handle& handle, std::string_view id, const LetterStep& step) {
    return handle.run(letters::sql::audit_letter, id, step.action, step.actor, step.status_from, step.status_to,
                      step.detail);
}

std::string letter_note(std::string_view text) {
    return shorten(one_line(storable(text)), kMaxStoredErrorBytes);
}

std::string letter_time(WallTime time) {
    return rfc3339_millis(std::chrono::ceil<std::chrono::milliseconds>(time));
}

}  // namespace deliverd::store::sqlite
