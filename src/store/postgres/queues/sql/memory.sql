-- The memory outbox: one statement per batch. {schema} holds the outbox tables. A worker's parameter is $1, ids are $2.

-- Parameters: worker, limit, lease in seconds, and the position behind which to claim: due time, id. The last two
-- columns are a row with the same content that was sent before, and what its receiver answered.
-- name: claim_memories
with picked as materialized (
    select p.outbox_id
    from {schema}.outbox_memory p
    where p.status = 'pending'
        and p.next_attempt_at <= now()
        and (p.locked_at is null or p.locked_at < now() - $3::float8 * interval '1 second')
        and (p.next_attempt_at, p.outbox_id) > ($4::timestamptz, $5::bigint)
    order by p.next_attempt_at, p.outbox_id
    limit $2::int
    for update skip locked
), taken as (
    update {schema}.outbox_memory o
    set locked_at = now(), locked_by = $1::text, updated_at = now()
    from picked
    where o.outbox_id = picked.outbox_id
    returning o.outbox_id, o.item_id, o.target_space, o.payload_md, o.payload_sha, o.retry_count, o.next_attempt_at
)
select t.*, now(), d.outbox_id, d.memory_id
from taken t
left join lateral (
    select s.outbox_id,
        case when s.last_error like 'memory\_id=%' then substr(s.last_error, length('memory_id=') + 1) end as memory_id
    from {schema}.outbox_memory s
    where s.status = 'sent'
        and hashtextextended(s.payload_sha, hashtextextended(s.target_space, 0))
            = hashtextextended(t.payload_sha, hashtextextended(t.target_space, 0))
        and s.payload_sha = t.payload_sha
        and s.target_space = t.target_space
    order by hashtextextended(s.payload_sha, hashtextextended(s.target_space, 0)), s.outbox_id
    limit 1
) d on true
order by t.next_attempt_at, t.outbox_id

-- The rows among the ids that this worker holds, except those that someone has locked at this moment. The lock is the
-- one that an update takes anyway, so that it never blocks a foreign key that points here.
-- part: held
with held as materialized (
    select o.outbox_id
    from unnest($2::bigint[]) as i (id)
    join {schema}.outbox_memory o on o.outbox_id = i.id
    where o.status = 'pending' and o.locked_by = $1::text
    for no key update of o skip locked
)

-- Parameters: worker, ids, kinds (SettleKind), notes, delays in seconds, failures before. Answers the ids of those that
-- applied.
-- name: settle_memories
with held as materialized (
    select o.outbox_id, i.kind, i.note, i.delay_seconds
    from unnest($2::bigint[], $3::int[], $4::text[], $5::float8[], $6::int[])
        as i (id, kind, note, delay_seconds, failures)
    join {schema}.outbox_memory o on o.outbox_id = i.id
    where o.status = 'pending' and o.locked_by = $1::text and o.retry_count = i.failures
    for no key update of o skip locked
), done as (
    update {schema}.outbox_memory o
    set status = case h.kind when 2 then 'pending' when 3 then 'dead' else 'sent' end,
        retry_count = o.retry_count + case when h.kind >= 2 then 1 else 0 end,
        next_attempt_at = case h.kind when 2 then now() + h.delay_seconds * interval '1 second'
                                      else o.next_attempt_at end,
        locked_at = null, locked_by = null, last_error = h.note, updated_at = now()
    from held h
    where o.outbox_id = h.outbox_id
    returning o.outbox_id, o.status, o.retry_count, o.last_error, h.kind
), trail as (
    insert into {schema}.outbox_audit (outbox, outbox_id, reason, status_from, status_to, retry_count, last_error,
        worker, actor)
    select 'memory', d.outbox_id,
        case d.kind when 0 then 'outbox_flush_success' when 1 then 'outbox_flush_dedup_hit'
                    when 2 then 'outbox_flush_retry' else 'outbox_flush_dead' end,
        'pending', d.status, d.retry_count, d.last_error, $1::text, $1::text
    from done d
)
select outbox_id from done

-- Parameter: ids.
-- name: memory_states
select outbox_id, status, retry_count, locked_by, last_error
from {schema}.outbox_memory
where outbox_id = any ($1::bigint[])

-- Answers an id with true if it was renewed, and with false if it was lost when the statement began. A row that changes
-- hands meanwhile is not answered, nor is a locked one.
-- name: renew_memories
{held}, renewed as (
    update {schema}.outbox_memory o
    set locked_at = now(), updated_at = now()
    from held h
    where o.outbox_id = h.outbox_id
    returning o.outbox_id
)
select outbox_id, true from renewed
union all
select i.id, false
from unnest($2::bigint[]) as i (id)
left join {schema}.outbox_memory o on o.outbox_id = i.id and o.status = 'pending' and o.locked_by = $1::text
where o.outbox_id is null

-- name: release_memories
{held}
update {schema}.outbox_memory o
set locked_at = null, locked_by = null, updated_at = now()
from held h
where o.outbox_id = h.outbox_id
returning o.outbox_id

-- Parameters: worker, ids, reasons, details, counts.
-- name: audit_memories
insert into {schema}.outbox_audit (outbox, outbox_id, reason, last_error, retry_count, worker, actor)
select 'memory', i.id, i.reason, i.detail, i.retry_count, $1::text, $1::text
from unnest($2::bigint[], $3::text[], $4::text[], $5::int[]) as i (id, reason, detail, retry_count)

-- The age starts at 1970 (kEarliestMicros) if a row says -infinity for "at once".
-- name: memory_lag
select date_part('epoch', now() - greatest(next_attempt_at, timestamptz '1970-01-01 00:00:00Z'))
from {schema}.outbox_memory
where status = 'pending' and next_attempt_at <= now()
order by next_attempt_at, outbox_id
limit 1

-- name: memory_counts
select status, count(*) from {schema}.outbox_memory group by status

-- Parameters: space, first id, last id.
-- name: remove_memories
with gone as (
    delete from {schema}.outbox_memory
    where target_space = $1::text and outbox_id between $2::bigint and $3::bigint
    returning outbox_id
), trail as (
    delete from {schema}.outbox_audit a using gone where a.outbox = 'memory' and a.outbox_id = gone.outbox_id
)
select count(*) from gone

-- A line per id with the row's present state. Parameters: ids, reason, status before, worker, actor.
-- name: audit_lease
insert into {schema}.outbox_audit (outbox, outbox_id, reason, status_from, status_to, retry_count, last_error, worker,
    actor)
select 'memory', o.outbox_id, $2::text, $3::text, o.status, o.retry_count, o.last_error, $4::text, $5::text
from {schema}.outbox_memory o
where o.outbox_id = any ($1::bigint[])
order by o.outbox_id
