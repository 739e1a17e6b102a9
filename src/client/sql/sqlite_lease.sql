-- The lease protocol on SQLite, for the client library and the store. SQLite has no stored functions, so these
-- statements are the protocol there; docs/lease-protocol.md shows them to other languages.

-- part: now
strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
-- part: row
outbox_id, item_id, target_space, payload_md, payload_sha, status, retry_count, next_attempt_at, locked_at, locked_by,
    last_error, created_at, updated_at
-- part: held
where outbox_id = ?1 and status = 'pending' and locked_by = ?2

-- 1 space, 2 payload, 3 digest, 4 item id or NULL.
-- name: enqueue
insert into outbox_memory (target_space, payload_md, payload_sha, item_id)
values (?1, ?2, ?3, ?4)
returning outbox_id

-- 1 worker, 2 limit, 3 the lease as a time modifier ("-60.000 seconds"), 4 and 5 the due time and the id behind which
-- to look ('' and 0: from the beginning). Rows come back in any order.
-- name: claim
update outbox_memory
set locked_at = {now}, locked_by = ?1, updated_at = {now}
where outbox_id in (
    select outbox_id
    from outbox_memory indexed by outbox_memory_claim
    where status = 'pending'
        and next_attempt_at <= {now}
        and (locked_at is null or locked_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?3))
        and (next_attempt_at, outbox_id) > (?4, ?5)
    order by next_attempt_at, outbox_id
    limit ?2
)
returning {row}

-- 1 id, 2 worker, 3 "memory_id=…" or NULL.
-- name: ack_sent
update outbox_memory
set status = 'sent', locked_at = null, locked_by = null, last_error = ?3, updated_at = {now}
{held}

-- 1 id, 2 worker, 3 error, 4 next attempt.
-- name: fail_retry
update outbox_memory
set retry_count = retry_count + 1, next_attempt_at = ?4, last_error = ?3, locked_at = null, locked_by = null,
    updated_at = {now}
{held}

-- 1 id, 2 worker, 3 error.
-- name: mark_dead
update outbox_memory
set status = 'dead', last_error = ?3, locked_at = null, locked_by = null, updated_at = {now}
{held}

-- 1 id, 2 worker, 3 lane. After mark_dead, in one transaction: the row's dead letter, or a new life for the one that
-- it has. An error "CODE: detail" is of the class CODE.
-- name: memory_letter
insert into dlq_messages (original_topic, source, lane, outbox, outbox_row_id, error_message, error_class, producer,
    record_key, payload, record_value)
select ?3, 'lane:' || ?3, ?3, 'memory', outbox_id, coalesce(nullif(last_error, ''), 'unknown error'),
    iif(instr(last_error, ': ') > 1 and instr(last_error, ' ') > instr(last_error, ': '),
        substr(last_error, 1, instr(last_error, ': ') - 1), null),
    ?2, cast(target_space as blob), json_quote(payload_md), cast(payload_md as blob)
from outbox_memory
where outbox_id = ?1 and status = 'dead'
on conflict (lane, outbox, outbox_row_id) where lane is not null do update
set status = iif(dlq_messages.retry_count < dlq_messages.max_retries, excluded.status, 'DEAD'), in_doubt = 0,
    error_message = excluded.error_message, error_class = excluded.error_class, producer = excluded.producer,
    retry_owner = null, retry_expires_at = null, updated_at = {now}

-- 1 id, 2 worker.
-- name: renew
update outbox_memory
set locked_at = {now}, updated_at = {now}
{held}

-- 1 ids as a JSON array, 2 worker.
-- name: renew_batch
update outbox_memory
set locked_at = {now}, updated_at = {now}
where outbox_id in (select value from json_each(?1)) and status = 'pending' and locked_by = ?2
returning outbox_id

-- 1 space, 2 digest.
-- name: check_dedup
select outbox_id, case when last_error glob 'memory_id=*' then substr(last_error, 11) end
from outbox_memory indexed by outbox_memory_dedup
where status = 'sent' and payload_sha = ?2 and target_space = ?1
order by outbox_id
limit 1

-- 1 id.
-- name: show
select {row}
from outbox_memory
where outbox_id = ?1
