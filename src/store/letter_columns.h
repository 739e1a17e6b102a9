// Dead letters and redrives from a row of either database. The statements of both name these columns in this order.
//
// A `row` has read(fields…), which reads its cells into the fields from the first column on, and
// read_from(column, fields…).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/dead_letters.h"
#include "store/record_headers.h"

namespace deliverd::store {

/// How many columns letter_at(), detail_at() and redrive_at() read.
inline constexpr int kLetterColumns = 27;
inline constexpr int kDetailColumns = kLetterColumns + 5;
inline constexpr int kRedriveColumns = 11;

template <typename Row>
[[nodiscard]] Letter letter_at(const Row& row) {
    Letter letter;
    Provenance& from = letter.provenance;
    std::string_view status;
    std::optional<std::string> lane;
    LaneRow lane_row;
    row.read(letter.id, letter.source, from.original_topic, from.original_partition, from.original_offset,
             from.error_message, from.error_class, from.stack_trace, from.producer, letter.retry_count,
             letter.max_retries, letter.payload, status, letter.created_at, letter.updated_at, letter.last_retry_at,
             letter.last_retry_error, letter.in_doubt, letter.topic, letter.partition, letter.offset, lane,
             lane_row.outbox, lane_row.row_id, letter.value_bytes, letter.truncated, letter.unfinished);
    letter.status = letter_status(status).value_or(LetterStatus::dead);  // the tables allow no other text
    if (lane) {
        lane_row.lane = std::move(*lane);
        letter.lane_row = std::move(lane_row);
    }
    return letter;
}

template <typename Row>
[[nodiscard]] LetterDetail detail_at(const Row& row) {
    LetterDetail detail{letter_at(row), {}};
    Record& record = detail.record;
    record.topic = detail.letter.topic.value_or("");
    record.partition = detail.letter.partition.value_or(0);
    record.offset = detail.letter.offset.value_or(0);
    std::string_view headers;
    std::optional<std::int64_t> timestamp_ms;
    std::string_view time_type;
    row.read_from(kLetterColumns, record.key, record.value, headers, timestamp_ms, time_type);
    record.headers = parse_record_headers(headers).value_or(std::vector<RecordHeader>());
    record.timestamp_ms = timestamp_ms.value_or(0);
    record.timestamp_type = record_time(time_type);
    return detail;
}

template <typename Row>
[[nodiscard]] Redrive redrive_at(const Row& row) {
    Redrive redrive;
    std::optional<WallTime> position_at;
    std::string position_id;
    row.read(redrive.topic, redrive.actor, position_at, position_id, redrive.up_to.created_at, redrive.up_to.id,
             redrive.published, redrive.failed, redrive.in_doubt, redrive.taken_over, redrive.finished);
    if (position_at) redrive.position = LetterCursor{*position_at, std::move(position_id)};
    return redrive;
}

template <typename Row>
[[nodiscard]] LetterAudit audit_line_at(const Row& row) {
    LetterAudit line;
    row.read(line.at, line.action, line.actor, line.status_from, line.status_to, line.detail);
    return line;
}

template <typename Row>
[[nodiscard]] TopicCounts topic_counts_at(const Row& row) {
    TopicCounts counts;
    row.read(counts.topic, counts.source, counts.pending, counts.retrying, counts.resolved, counts.dead,
             counts.newest_at);
    return counts;
}

template <typename Row>
[[nodiscard]] Destination destination_at(const Row& row) {
    Destination found;
    row.read(found.topic, found.source, found.letters);
    return found;
}

}  // namespace deliverd::store
