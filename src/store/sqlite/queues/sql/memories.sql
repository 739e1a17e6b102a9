-- The lane's statements for the memory outbox, beside those of the protocol (client/sql/sqlite_lease.sql).

-- part: now
strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
-- part: held
where outbox_id = ?1 and status = 'pending' and locked_by = ?2 and retry_count = ?4

-- 1 id, 2 worker, 3 what to leave in last_error, 4 failures when it was claimed.
-- name: memory_sent
update outbox_memory
set status = 'sent', last_error = ?3, locked_at = null, locked_by = null, updated_at = {now}
{held}

-- 1 id, 2 worker, 3 error, 4 failures when it was claimed, 5 the delay as a time modifier ("+60.000 seconds").
-- name: memory_retry
update outbox_memory
set retry_count = retry_count + 1, next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?5), last_error = ?3,
    locked_at = null, locked_by = null, updated_at = {now}
{held}

-- 1 id, 2 worker, 3 error, 4 failures when it was claimed. Counts the last failure too.
-- name: memory_dead
update outbox_memory
set status = 'dead', retry_count = retry_count + 1, last_error = ?3, locked_at = null, locked_by = null,
    updated_at = {now}
{held}

-- 1 ids as a JSON array, 2 worker.
-- name: release_memories
update outbox_memory
set locked_at = null, locked_by = null, updated_at = {now}
where outbox_id in (select value from json_each(?1)) and status = 'pending' and locked_by = ?2
returning outbox_id

-- 1 id, 2 reason, 3 worker and actor; the rest from the row as it is now.
-- name: audit_memory
insert into outbox_audit (outbox, outbox_id, reason, status_from, status_to, retry_count, last_error, worker, actor)
select 'memory', outbox_id, ?2, 'pending', status, retry_count, last_error, ?3, ?3
from outbox_memory
where outbox_id = ?1

-- 1 id, 2 reason, 3 detail, 4 count, 5 worker and actor.
-- name: note_memory
insert into outbox_audit (outbox, outbox_id, reason, last_error, retry_count, worker, actor)
values ('memory', ?1, ?2, ?3, ?4, ?5, ?5)

-- 1 id.
-- name: memory_state
select status, retry_count, locked_by, last_error
from outbox_memory
where outbox_id = ?1

-- name: memory_lag
select (julianday('now') - julianday(next_attempt_at)) * 86400.0
from outbox_memory indexed by outbox_memory_claim
where status = 'pending' and next_attempt_at <= {now}
order by next_attempt_at, outbox_id
limit 1

-- name: memory_counts
select status, count(*) from outbox_memory group by status
