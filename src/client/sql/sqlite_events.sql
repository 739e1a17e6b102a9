-- The event outbox on SQLite. SQLite has no stored functions, so these statements are what docs/events.md shows to
-- other languages.

-- part: now
strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
-- part: event
select id, aggregate_id, event_type, payload, metadata, event_id, created_at, published, published_at, retry_count,
    next_attempt_at, last_error, dead_at
from outbox

-- 1 aggregate, 2 type, 3 payload, 4 metadata.
-- name: add_event
insert into outbox (aggregate_id, event_type, payload, metadata)
values (?1, ?2, ?3, ?4)
returning id

-- 1 limit.
-- name: fetch_unpublished
{event}
where not published and dead_at is null
order by id
limit ?1

-- 1 id. A dead one counts as published from here on, and keeps nothing waiting behind it.
-- name: mark_published
update outbox
set published = 1, published_at = {now}, dead_at = null
where id = ?1 and not published
returning id

-- 1 id, 2 error. Null stands for "at once"; a time that a relay wrote stays.
-- name: increment_retry_count
update outbox
set retry_count = retry_count + 1, last_error = coalesce(nullif(?2, ''), last_error),
    next_attempt_at = coalesce(next_attempt_at, {now})
where id = ?1 and not published and dead_at is null
returning retry_count

-- 1 the age as a time modifier ("-60.000 seconds"), 2 limit.
-- name: delete_published
delete from outbox
where id in (
    select id
    from outbox
    where published and coalesce(published_at, created_at) < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?1)
    order by coalesce(published_at, created_at)
    limit ?2
)
returning id

-- name: event_stats
select count(*),
    count(*) filter (where not published and dead_at is null),
    count(*) filter (where published),
    count(*) filter (where not published and dead_at is not null),
    max(0.0, (julianday('now') - julianday(min(created_at) filter (where not published and dead_at is null))) * 86400.0),
    coalesce(max(retry_count), 0)
from outbox

-- 1 aggregate, 2 limit.
-- name: events_by_aggregate
{event}
where aggregate_id = ?1
order by id
limit ?2

-- 1 id.
-- name: show_event
{event}
where id = ?1
