// Dead letters as rows of SQLite: reading one, changing one's state, and its audit.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/dead_letters.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

/// Of the table dlq_messages as `m`: what letter_at() reads, and what detail_at() reads after that.
/// `in_doubt` as it is recorded; a listing and find() add what an owner left that is gone.
inline constexpr std::string_view kLetterColumns =
    "m.id, m.source, m.original_topic, m.original_partition, m.original_offset, m.error_message, m.error_class,"
    " m.stack_trace, m.producer, m.retry_count, m.max_retries, m.payload, m.status, m.created_at, m.updated_at,"
    " m.last_retry_at, m.last_retry_error, m.in_doubt, m.source_topic, m.source_partition, m.source_offset, m.lane,"
    " m.outbox, m.outbox_row_id, coalesce(length(m.record_value), 0), m.truncated,"
    " m.retry_owner is not null and m.retry_expires_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

[[nodiscard]] Letter letter_at(const SqliteStatement& row);

/// A letter and whose retry of it is under way.
struct StoredLetter {
    LetterDetail detail;
    std::optional<std::string> retry_owner;
    bool retry_is_live = false;  // the owner's lease has not run out
};

/// None when there is none.
[[nodiscard]] Result<std::optional<StoredLetter>> stored_letter(Handle& handle, std::string_view id);

struct LetterStep {
    std::string_view action;
    std::string_view actor;
    std::optional<std::string> status_from{};
    std::optional<std::string> status_to{};
    std::optional<std::string> detail{};
};
[[nodiscard]] Result<void> audit_letter(Handle& handle, std::string_view id, const LetterStep& step);

/// One line that fits: errors of receivers and details can be long, and hold anything.
[[nodiscard]] std::string letter_note(std::string_view text);

/// Times as the tables have them; what is finer than a millisecond is rounded up, so that comparing with what is stored
/// stays right.
[[nodiscard]] std::string letter_time(WallTime time);

}  // namespace deliverd::store::sqlite
