#include "store/postgres/letters/letter_rows.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/uuid.h"
#include "store/letter_rules.h"
#include "store/memory_message.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/letters/dead_letters_sql.h"
#include "store/postgres/letters/redrive_sql.h"
#include "store/record_headers.h"

namespace deliverd::store::postgres {
namespace {

std::optional<std::int32_t> optional_int32_at(const PGresult* result, int row, int column) {
    if (null_at(result, row, column)) return std::nullopt;
    return int32_at(result, row, column);
}

std::optional<std::int64_t> optional_int64_at(const PGresult* result, int row, int column) {
    if (null_at(result, row, column)) return std::nullopt;
    return int64_at(result, row, column);
}

RecordTime record_time(std::string_view text) {
    if (text == "created") return RecordTime::created;
    return text == "appended" ? RecordTime::appended : RecordTime::none;
}

}  // namespace

Letter letter_at(const PGresult* result, int row) {
    Letter letter;
    letter.id = text_at(result, row, kLetterId);
    letter.source = text_at(result, row, kLetterSource);
    Provenance& from = letter.provenance;
    from.original_topic = text_at(result, row, kLetterOriginalTopic);
    from.original_partition = optional_int32_at(result, row, kLetterOriginalPartition);
    from.original_offset = optional_int64_at(result, row, kLetterOriginalOffset);
    from.error_message = text_at(result, row, kLetterErrorMessage);
    from.error_class = optional_text_at(result, row, kLetterErrorClass);
    from.stack_trace = optional_text_at(result, row, kLetterStackTrace);
    from.producer = optional_text_at(result, row, kLetterProducer);
    letter.retry_count = int32_at(result, row, kLetterRetryCount);
    letter.max_retries = int32_at(result, row, kLetterMaxRetries);
    letter.payload = optional_text_at(result, row, kLetterPayload);
    letter.status = letter_status(text_at(result, row, kLetterStatus)).value_or(LetterStatus::pending);
    letter.created_at = time_at(result, row, kLetterCreatedAt);
    letter.updated_at = time_at(result, row, kLetterUpdatedAt);
    if (!null_at(result, row, kLetterLastRetryAt)) letter.last_retry_at = time_at(result, row, kLetterLastRetryAt);
    letter.last_retry_error = optional_text_at(result, row, kLetterLastRetryError);
    letter.in_doubt = bool_at(result, row, kLetterInDoubt);
    letter.topic = optional_text_at(result, row, kLetterTopic);
    letter.partition = optional_int32_at(result, row, kLetterPartition);
    letter.offset = optional_int64_at(result, row, kLetterOffset);
    if (!null_at(result, row, kLetterLane)) {
        letter.lane_row = LaneRow{std::string(text_at(result, row, kLetterLane)),
                                  optional_text_at(result, row, kLetterOutbox).value_or(""),
                                  optional_text_at(result, row, kLetterRowId).value_or("")};
    }
    letter.value_bytes = optional_int32_at(result, row, kLetterValueBytes).value_or(0);
    letter.truncated = bool_at(result, row, kLetterTruncated);
    letter.unfinished = bool_at(result, row, kLetterUnfinished);
    return letter;
}

LetterDetail detail_at(const PGresult* result, int row) {
    LetterDetail detail;
    detail.letter = letter_at(result, row);
    Record& record = detail.record;
    record.topic = detail.letter.topic.value_or("");
    record.partition = detail.letter.partition.value_or(0);
    record.offset = detail.letter.offset.value_or(0);
    record.key = optional_text_at(result, row, kLetterKey);
    record.value = optional_text_at(result, row, kLetterValue);
    record.headers = parse_record_headers(text_at(result, row, kLetterHeaders)).value_or(std::vector<RecordHeader>());
    record.timestamp_ms = optional_int64_at(result, row, kLetterTimestamp).value_or(0);
    record.timestamp_type = record_time(optional_text_at(result, row, kLetterTimestampType).value_or(""));
    return detail;
}

Redrive redrive_at(const PGresult* result, int row) {
    Redrive redrive;
    redrive.topic = text_at(result, row, kRedriveTopic);
    redrive.actor = text_at(result, row, kRedriveActor);
    if (!null_at(result, row, kRedrivePositionId)) {
        redrive.position = LetterCursor{time_at(result, row, kRedrivePositionAt),
                                        std::string(text_at(result, row, kRedrivePositionId))};
    }
    redrive.up_to = {time_at(result, row, kRedriveUpToAt), std::string(text_at(result, row, kRedriveUpToId))};
    redrive.published = int64_at(result, row, kRedrivePublished);
    redrive.failed = int64_at(result, row, kRedriveFailed);
    redrive.in_doubt = int64_at(result, row, kRedriveInDoubt);
    redrive.taken_over = int64_at(result, row, kRedriveTakenOver);
    redrive.finished = bool_at(result, row, kRedriveFinished);
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
