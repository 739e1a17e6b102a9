-- The protocols on PostgreSQL, where they are stored functions: the columns in the order of protocol_rows.h, times as
-- RFC 3339 text.

-- part: memory_row
select outbox_id, item_id, target_space, payload_md, payload_sha, status, retry_count,
    to_char(next_attempt_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    to_char(locked_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), locked_by, last_error,
    to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    to_char(updated_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
-- part: event
select id, aggregate_id, event_type, payload, metadata, event_id,
    to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), published,
    to_char(published_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), retry_count,
    to_char(next_attempt_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), last_error,
    to_char(dead_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')

-- name: postgres_claim
{memory_row}
from deliverd.claim_outbox($1, $2, $3)

-- name: postgres_show
{memory_row}
from deliverd.show_memory($1)

-- name: postgres_fetch_unpublished
{event}
from deliverd.fetch_unpublished($1)

-- name: postgres_events_by_aggregate
{event}
from deliverd.events_by_aggregate($1, $2)

-- name: postgres_show_event
{event}
from deliverd.show_event($1)

-- name: postgres_event_stats
select total, unpublished, published, dead, oldest_unpublished_age_seconds, max_retries
from deliverd.outbox_stats()
