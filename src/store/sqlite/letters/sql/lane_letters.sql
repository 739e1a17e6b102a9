-- Letters of rows that a lane gave up, and their way back.

-- part: now
strftime('%Y-%m-%dT%H:%M:%fZ', 'now')

-- 1 lane, 2 row, 3 error, 4 error class, 5 worker, 6 headers, 7 payload as text or NULL, 8 its bytes, 9 aggregate, 10
-- the event's id or NULL. Whether it is the same message, or one whose row has the same id, a trigger decides (0007).
-- name: event_letter
insert into dlq_messages (original_topic, source, lane, outbox, outbox_row_id, error_message, error_class, producer,
    record_headers, payload, record_value, record_key, event_id)
values (?1, 'lane:' || ?1, ?1, 'events', ?2, coalesce(nullif(?3, ''), 'unknown error'), nullif(?4, ''), ?5, ?6,
    iif(json_valid(?7), ?7, null), ?8, ?9, ?10)
on conflict (lane, outbox, outbox_row_id) where lane is not null do update
set status = iif(dlq_messages.retry_count < dlq_messages.max_retries, excluded.status, 'DEAD'), in_doubt = 0,
    error_message = excluded.error_message, error_class = excluded.error_class, producer = excluded.producer,
    record_headers = excluded.record_headers, payload = excluded.payload, record_value = excluded.record_value,
    record_key = excluded.record_key, event_id = coalesce(excluded.event_id, dlq_messages.event_id),
    retry_owner = null, retry_expires_at = null, updated_at = {now}

-- 1 lane, 2 table, 3 to 7 its columns.
-- name: keep_event_table
insert into deliverd_event_tables (lane, table_name, id_column, published_column, retry_count_column,
    next_attempt_at_column, dead_at_column)
values (?1, ?2, ?3, nullif(?4, ''), nullif(?5, ''), nullif(?6, ''), nullif(?7, ''))
on conflict (lane) do update
set table_name = excluded.table_name, id_column = excluded.id_column, published_column = excluded.published_column,
    retry_count_column = excluded.retry_count_column, next_attempt_at_column = excluded.next_attempt_at_column,
    dead_at_column = excluded.dead_at_column

-- An event of a mapped table, whose {names} are the lane's: '{}', null or false for a column that is not there. 1 row.
-- name: event_cells
select cast({payload} as blob), {metadata}, {event_id}
from {table}
where {id} = ?1

-- Whether the row is still there to be sent, dead or not. 1 row.
-- name: unpublished_event
select 1
from {table}
where {id} = ?1 and not {published}

-- One failure stays counted: that keeps the later rows of its aggregate behind it until it was sent. With none, a relay
-- whose position is past it would find them first. 1 row.
-- name: return_event
update {table}
set {dead_at} = null, {retry_count} = 1, {next_attempt_at} = null
where {id} = ?1 and {dead_at} is not null and not {published}

-- 1 lane.
-- name: event_table
select table_name, id_column, published_column, retry_count_column, next_attempt_at_column, dead_at_column
from deliverd_event_tables
where lane = ?1

-- 1 row.
-- name: return_memory
update outbox_memory
set status = 'pending', retry_count = 0, next_attempt_at = {now}, locked_at = null, locked_by = null,
    updated_at = {now}
where outbox_id = ?1 and status = 'dead'

-- 1 lane, 2 row.
-- name: return_failure
update deliverd_event_failures
set dead_at = null, retry_count = 1, next_attempt_at = null
where lane = ?1 and row_id = ?2 and dead_at is not null

-- 1 outbox, 2 the row's number or 0, 3 what it is called where that is no number, 4 actor.
-- name: audit_return
insert into outbox_audit (outbox, outbox_id, idempotency_key, reason, status_from, status_to, actor)
values (?1, ?2, ?3, 'dead_letter_returned', 'dead', 'pending', ?4)
