// The statements of the lease protocol on SQLite, shared by the client library and the store. SQLite has no
// stored functions, so these are the protocol there; docs/lease-protocol.md shows them to other languages.
#pragma once

#include <string_view>

namespace deliverd::client::sqlite_sql {

#define DELIVERD_NOW "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
#define DELIVERD_ROW                                                                                    \
    "outbox_id, item_id, target_space, payload_md, payload_sha, status, retry_count, next_attempt_at, " \
    "locked_at, locked_by, last_error, created_at, updated_at"
#define DELIVERD_HELD " where outbox_id = ?1 and status = 'pending' and locked_by = ?2"
#define DELIVERD_CLAIM_FROM                                                                             \
    "update outbox_memory set locked_at = " DELIVERD_NOW ", locked_by = ?1, updated_at = " DELIVERD_NOW \
    " where outbox_id in (select outbox_id from outbox_memory indexed by outbox_memory_claim"           \
    " where status = 'pending' and next_attempt_at <= " DELIVERD_NOW                                    \
    " and (locked_at is null or locked_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?3))"
#define DELIVERD_CLAIM_ORDER " order by next_attempt_at, outbox_id limit ?2) returning "

/// 1 space, 2 payload, 3 digest, 4 item id or NULL.
inline constexpr std::string_view kEnqueue =
    "insert into outbox_memory (target_space, payload_md, payload_sha, item_id) values (?1, ?2, ?3, ?4)"
    " returning outbox_id";

/// 1 worker, 2 limit, 3 the lease as a time modifier ("-60.000 seconds"). Rows come back in any order.
inline constexpr std::string_view kClaim = DELIVERD_CLAIM_FROM DELIVERD_CLAIM_ORDER DELIVERD_ROW;

/// The same behind the position (4 due time, 5 id).
inline constexpr std::string_view kClaimAfter =
    DELIVERD_CLAIM_FROM " and (next_attempt_at, outbox_id) > (?4, ?5)" DELIVERD_CLAIM_ORDER DELIVERD_ROW;

/// 1 id, 2 worker, 3 `memory_id=…` or NULL.
inline constexpr std::string_view kAckSent =
    "update outbox_memory set status = 'sent', locked_at = null, locked_by = null, last_error = ?3, updated_at "
    "= " DELIVERD_NOW DELIVERD_HELD;

/// 1 id, 2 worker, 3 error, 4 next attempt.
inline constexpr std::string_view kFailRetry =
    "update outbox_memory set retry_count = retry_count + 1, next_attempt_at = ?4, last_error = ?3,"
    " locked_at = null, locked_by = null, updated_at = " DELIVERD_NOW DELIVERD_HELD;

/// 1 id, 2 worker, 3 error.
inline constexpr std::string_view kMarkDead =
    "update outbox_memory set status = 'dead', last_error = ?3, locked_at = null, locked_by = null, updated_at "
    "= " DELIVERD_NOW DELIVERD_HELD;

/// 1 id, 2 worker, 3 lane. After kMarkDead, in one transaction: the dead letter of the row, or a new life for the one
/// that it has. An error "CODE: detail" is of the class CODE.
inline constexpr std::string_view kMemoryLetter =
    "insert into dlq_messages (original_topic, source, lane, outbox, outbox_row_id, error_message, error_class,"
    " producer, record_key, payload, record_value)"
    " select ?3, 'lane:' || ?3, ?3, 'memory', outbox_id, coalesce(nullif(last_error, ''), 'unknown error'),"
    " iif(instr(last_error, ': ') > 1 and instr(last_error, ' ') > instr(last_error, ': '),"
    " substr(last_error, 1, instr(last_error, ': ') - 1), null), ?2, cast(target_space as blob),"
    " json_quote(payload_md), cast(payload_md as blob) from outbox_memory where outbox_id = ?1 and status = 'dead'"
    " on conflict (lane, outbox, outbox_row_id) where lane is not null do update set"
    " status = iif(dlq_messages.retry_count < dlq_messages.max_retries, excluded.status, 'DEAD'), in_doubt = 0,"
    " error_message = excluded.error_message, error_class = excluded.error_class, producer = excluded.producer,"
    " retry_owner = null, retry_expires_at = null, updated_at = " DELIVERD_NOW;

/// The lane that rows are of which no lane, but a worker by itself gave up.
inline constexpr std::string_view kMemoryLane = "memory";

/// 1 id, 2 worker.
inline constexpr std::string_view kRenew =
    "update outbox_memory set locked_at = " DELIVERD_NOW ", updated_at = " DELIVERD_NOW DELIVERD_HELD;

/// 1 ids as a JSON array, 2 worker.
inline constexpr std::string_view kRenewBatch =
    "update outbox_memory set locked_at = " DELIVERD_NOW ", updated_at = " DELIVERD_NOW
    " where outbox_id in (select value from json_each(?1)) and status = 'pending' and locked_by = ?2"
    " returning outbox_id";

/// 1 space, 2 digest.
inline constexpr std::string_view kCheckDedup =
    "select outbox_id, case when last_error glob 'memory_id=*' then substr(last_error, 11) end"
    " from outbox_memory indexed by outbox_memory_dedup"
    " where status = 'sent' and payload_sha = ?2 and target_space = ?1 order by outbox_id limit 1";

/// 1 id.
inline constexpr std::string_view kShow = "select " DELIVERD_ROW " from outbox_memory where outbox_id = ?1";

#undef DELIVERD_CLAIM_ORDER
#undef DELIVERD_CLAIM_FROM
#undef DELIVERD_HELD
#undef DELIVERD_ROW
#undef DELIVERD_NOW

}  // namespace deliverd::client::sqlite_sql
