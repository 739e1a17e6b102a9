// The lane's statements on SQLite, beside those of the protocol (client/sqlite_protocol.h).
#pragma once

#include <string_view>

namespace deliverd::store::sqlite {

#define DELIVERD_NOW "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
#define DELIVERD_HELD " where outbox_id = ?1 and status = 'pending' and locked_by = ?2 and retry_count = ?4"

/// 1 id, 2 worker, 3 what to leave in last_error, 4 failures when it was claimed.
inline constexpr std::string_view kSent =
    "update outbox_memory set status = 'sent', last_error = ?3,"
    " locked_at = null, locked_by = null, updated_at = " DELIVERD_NOW DELIVERD_HELD;

/// 1 id, 2 worker, 3 error, 4 failures when it was claimed, 5 the delay as a time modifier ("+60.000 seconds").
inline constexpr std::string_view kRetryAfter =
    "update outbox_memory set retry_count = retry_count + 1,"
    " next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?5), last_error = ?3,"
    " locked_at = null, locked_by = null, updated_at = " DELIVERD_NOW DELIVERD_HELD;

/// 1 id, 2 worker, 3 error, 4 failures when it was claimed. Counts the failure that was one too many.
inline constexpr std::string_view kGiveUp =
    "update outbox_memory set status = 'dead', retry_count = retry_count + 1, last_error = ?3,"
    " locked_at = null, locked_by = null, updated_at = " DELIVERD_NOW DELIVERD_HELD;

/// 1 ids as a JSON array, 2 worker.
inline constexpr std::string_view kRelease =
    "update outbox_memory set locked_at = null, locked_by = null, updated_at = " DELIVERD_NOW
    " where outbox_id in (select value from json_each(?1)) and status = 'pending' and locked_by = ?2"
    " returning outbox_id";

/// 1 id, 2 reason, 3 status before, 4 worker, 5 actor; the rest from the row as it is now.
inline constexpr std::string_view kAuditRow =
    "insert into outbox_audit (outbox, outbox_id, reason, status_from, status_to, retry_count, last_error, worker,"
    " actor) select 'memory', outbox_id, ?2, ?3, status, retry_count, last_error, ?4, ?5"
    " from outbox_memory where outbox_id = ?1";

/// 1 id, 2 reason, 3 detail, 4 count, 5 worker and actor.
inline constexpr std::string_view kAuditNote =
    "insert into outbox_audit (outbox, outbox_id, reason, last_error, retry_count, worker, actor)"
    " values ('memory', ?1, ?2, ?3, ?4, ?5, ?5)";

/// 1 id.
inline constexpr std::string_view kRowState =
    "select status, retry_count, locked_by, last_error from outbox_memory where outbox_id = ?1";

inline constexpr std::string_view kLag =
    "select (julianday('now') - julianday(next_attempt_at)) * 86400.0"
    " from outbox_memory indexed by outbox_memory_claim"
    " where status = 'pending' and next_attempt_at <= " DELIVERD_NOW " order by next_attempt_at, outbox_id limit 1";

inline constexpr std::string_view kCounts = "select status, count(*) from outbox_memory group by status";

/// 1 space, 2 first id, 3 last id; the audit's lines before the rows that say which they are.
inline constexpr std::string_view kRemoveAudit =
    "delete from outbox_audit where outbox = 'memory' and outbox_id in (select outbox_id from outbox_memory"
    " where target_space = ?1 and outbox_id between ?2 and ?3)";
inline constexpr std::string_view kRemoveRows =
    "delete from outbox_memory where target_space = ?1 and outbox_id between ?2 and ?3";

#undef DELIVERD_HELD
#undef DELIVERD_NOW

}  // namespace deliverd::store::sqlite
