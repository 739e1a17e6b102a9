// The statements of the event outbox on SQLite. SQLite has no stored functions, so these are what docs/events.md shows
// to other languages.
#pragma once

#include <string_view>

namespace deliverd::client::sqlite_sql {

#define DELIVERD_NOW "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
#define DELIVERD_EVENT                                                                                        \
    "select id, aggregate_id, event_type, payload, metadata, event_id, created_at, published, published_at, " \
    "retry_count, next_attempt_at, last_error, dead_at from outbox"

/// 1 aggregate, 2 type, 3 payload, 4 metadata.
inline constexpr std::string_view kAddEvent =
    "insert into outbox (aggregate_id, event_type, payload, metadata) values (?1, ?2, ?3, ?4) returning id";

/// 1 limit.
inline constexpr std::string_view kFetchUnpublished =
    DELIVERD_EVENT " where not published and dead_at is null order by id limit ?1";

/// 1 id. A dead one counts as published from here on, and keeps nothing waiting behind it.
inline constexpr std::string_view kMarkPublished = "update outbox set published = 1, published_at = " DELIVERD_NOW
                                                   ", dead_at = null where id = ?1 and not published returning id";

/// 1 id, 2 error. Null stands for "at once"; a time that a relay wrote stays.
inline constexpr std::string_view kIncrementRetryCount =
    "update outbox set retry_count = retry_count + 1, last_error = coalesce(nullif(?2, ''), last_error),"
    " next_attempt_at = coalesce(next_attempt_at, " DELIVERD_NOW
    ") where id = ?1 and not published and dead_at is null returning retry_count";

/// 1 the age as a time modifier ("-60.000 seconds"), 2 limit.
inline constexpr std::string_view kDeletePublished =
    "delete from outbox where id in (select id from outbox where published"
    " and coalesce(published_at, created_at) < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?1)"
    " order by coalesce(published_at, created_at) limit ?2) returning id";

inline constexpr std::string_view kEventStats =
    "select count(*), count(*) filter (where not published and dead_at is null),"
    " count(*) filter (where published), count(*) filter (where not published and dead_at is not null),"
    " max(0.0, (julianday('now') - julianday(min(created_at) filter (where not published and dead_at is null)))"
    " * 86400.0), coalesce(max(retry_count), 0) from outbox";

/// 1 aggregate, 2 limit.
inline constexpr std::string_view kEventsByAggregate = DELIVERD_EVENT " where aggregate_id = ?1 order by id limit ?2";

/// 1 id.
inline constexpr std::string_view kShowEvent = DELIVERD_EVENT " where id = ?1";

#undef DELIVERD_EVENT
#undef DELIVERD_NOW

}  // namespace deliverd::client::sqlite_sql
