#include "store/postgres/letters/letter_rows.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/uuid.h"
#include "store/letter_rules.h"
#include "store/memory_message.h"
#include "store/postgres/connection/cells.h"
#include "store/record_headers.h"

namespace deliverd::store::postgres {

Letter letter_at(const PGresult* result, int row) {
    Letter letter;
    Provenance& from = letter.provenance;
    std::string_view status;
    std::optional<std::string> lane;
    std::string outbox;
    std::string row_id;
    std::optional<std::int32_t> value_bytes;
    read_row(result, row, letter.id, letter.source, from.original_topic, from.original_partition, from.original_offset,
             from.error_message, from.error_class, from.stack_trace, from.producer, letter.retry_count,
             letter.max_retries, letter.payload, status, letter.created_at, letter.updated_at, letter.last_retry_at,
             letter.last_retry_error, letter.in_doubt, letter.topic, letter.partition, letter.offset, lane, outbox,
             row_id, value_bytes, letter.truncated, letter.unfinished);
    letter.status = letter_status(status).value_or(LetterStatus::pending);
    if (lane) letter.lane_row = LaneRow{std::move(*lane), std::move(outbox), std::move(row_id)};
    letter.value_bytes = value_bytes.value_or(0);
    return letter;
}

LetterDetail detail_at(const PGresult* result, int row) {
    LetterDetail detail;
    detail.letter = letter_at(result, row);
    Record& record = detail.record;
    record.topic = detail.letter.topic.value_or("");
    record.partition = detail.letter.partition.value_or(0);
    record.offset = detail.letter.offset.value_or(0);
    int column = kLetterColumns;
    read_cell(result, row, column++, record.key);
    read_cell(result, row, column++, record.value);
    record.headers = parse_record_headers(text_at(result, row, column++)).value_or(std::vector<RecordHeader>());
    std::optional<std::int64_t> timestamp_ms;
    read_cell(result, row, column++, timestamp_ms);
    record.timestamp_ms = timestamp_ms.value_or(0);
    const std::string_view type = text_at(result, row, column);
    record.timestamp_type = type == "created"    ? RecordTime::created
                            : type == "appended" ? RecordTime::appended
                                                 : RecordTime::none;
    return detail;
}

Redrive redrive_at(const PGresult* result, int row) {
    Redrive redrive;
    std::optional<WallTime> position_at;
    std::string position_id;
    read_row(result, row, redrive.topic, redrive.actor, position_at, position_id, redrive.up_to.created_at,
             redrive.up_to.id, redrive.published, redrive.failed, redrive.in_doubt, redrive.taken_over,
             redrive.finished);
    if (position_at) redrive.position = LetterCursor{*position_at, std::move(position_id)};
    return redrive;
}

std::vector<std::optional<std::string>> sorted_ids(std::span<const std::string> ids) {
    std::vector<std::optional<std::string>> out;
    out.reserve(ids.size());
    for (const std::string& id : ids) {
        if (std::string uuid = canonical_uuid(id); !uuid.empty()) out.emplace_back(std::move(uuid));
    }
    std::ranges::sort(out);
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
}

std::string letter_note(std::string_view text) {
    return shorten(storable(text), kMaxStoredErrorBytes);
}

}  // namespace deliverd::store::postgres
