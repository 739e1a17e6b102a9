-- Dead letters: schema dlq. {schema} holds the outbox tables.

-- Nobody's retry of m is under way.
-- part: free
(m.retry_owner is null or m.retry_expires_at < now())

-- m may be retried, except for the count and for a retry under way: the same as retry_refusal() and retry_verdict() in
-- store/letter_rules.h.
-- part: wanted
m.status in ('PENDING', 'RETRYING')
        and case when m.lane is null then not m.truncated
                 else m.outbox <> 'orders' and m.outbox_row_id is not null end

-- The columns of a letter as letter_at() reads them are {origin}, the stack trace, {retries}, the payload, {state};
-- detail_at() reads {record} behind them.
-- part: origin
m.id::text, m.source, m.original_topic, m.original_partition, m.original_offset, m.error_message, m.error_class

-- part: retries
m.producer, m.retry_count, m.max_retries

-- part: state
m.status, m.created_at, m.updated_at, m.last_retry_at, m.last_retry_error,
    m.in_doubt or (m.retry_owner is not null and m.retry_expires_at < now()),
    m.source_topic, m.source_partition, m.source_offset, m.lane, m.outbox, m.outbox_row_id,
    coalesce(octet_length(m.record_value), 0)::bigint, m.truncated,
    m.retry_owner is not null and m.retry_expires_at < now()

-- part: record
m.record_key, m.record_value, m.record_headers::text, m.record_timestamp_ms, m.record_timestamp_type

-- Stored once: {once} is the index of the place in Kafka, or the id. It is named, because another unique index that
-- someone made for the table must not swallow a letter. {payload} is i.payload as jsonb, or null where jsonb refuses it.
-- Arrival is not audited; created_at records it. The command tag says how many rows were written.
-- Parameters, all arrays: ids, topics, partitions, offsets, timestamps, their types, keys, values, headers, payloads,
-- truncated, original topics, partitions, offsets, error messages, classes, stack traces, producers, sources.
-- name: store_letters
insert into dlq.dlq_messages (id, source_topic, source_partition, source_offset, record_timestamp_ms,
    record_timestamp_type, record_key, record_value, record_headers, payload, truncated, original_topic,
    original_partition, original_offset, error_message, error_class, stack_trace, producer, source)
select i.id::uuid, i.topic, i.partition, i."offset", i.timestamp_ms, i.timestamp_type, i.key, i.value, i.headers::jsonb,
    {payload}, i.truncated = 1, i.original_topic, i.original_partition, i.original_offset, i.error_message,
    i.error_class, i.stack_trace, i.producer, i.source
from unnest($1::text[], $2::text[], $3::int[], $4::bigint[], $5::bigint[], $6::text[], $7::bytea[], $8::bytea[],
        $9::text[], $10::text[], $11::int[], $12::text[], $13::int[], $14::bigint[], $15::text[], $16::text[],
        $17::text[], $18::text[], $19::text[])
    as i (id, topic, partition, "offset", timestamp_ms, timestamp_type, key, value, headers, payload, truncated,
        original_topic, original_partition, original_offset, error_message, error_class, stack_trace, producer, source)
on conflict {once} do nothing

-- An array of one id: only a look-up answers that, whatever the planner believes about the table. Parameter: ids.
-- name: find_letters
select {origin}, m.stack_trace, {retries}, m.payload::text, {state}, {record}
from unnest($1::text[]::uuid[]) as i (id)
cross join lateral (select d.* from dlq.dlq_messages d where d.id = any (array[i.id])) m

-- The size of a payload. It is known without reading what is stored elsewhere.
-- part: bytes
case when m.payload is null then 0 else coalesce(octet_length(m.record_value), octet_length(m.payload::text)) end

-- Whether a page shows the payload of its letter m: one of at most {short_bytes}, or while the longer ones, in the order
-- of the page p, have at most {long_bytes} together.
-- part: shown
({bytes} <= {short_bytes}
        or sum(case when {bytes} <= {short_bytes} then 0 else {bytes} end)
            over (order by p.created_at desc, p.id desc rows unbounded preceding) <= {long_bytes})

-- How many letters of a topic there are, or of all; {rest} is a condition on the lines. Parameter: topic.
-- name: count_topic
select coalesce(sum(k.letters), 0)::bigint
from (
    select c.letters from dlq.dlq_counts c where c.topic = $1::text{rest}
    union all
    select c.letters from dlq.dlq_counts c where c.original_topic = $1::text and c.topic <> $1::text{rest}
) k

-- name: count_all
select coalesce(sum(c.letters), 0)::bigint from dlq.dlq_counts c where true{rest}

-- The letters of a page, without stack traces, and whether the payload was left out. {page} selects id and created_at
-- in order.
-- name: list_letters
select {origin}, null::text, {retries}, case when {shown} then m.payload::text end, {state}, not {shown}
from ({page}) p
cross join lateral (select d.* from dlq.dlq_messages d where d.id = any (array[p.id])) m
order by p.created_at desc, p.id desc

-- Parameters: id, limit.
-- name: letter_audit
select a.at, a.action, a.actor, a.status_from, a.status_to, a.detail
from dlq.dlq_audit a
where a.message_id = $1::uuid
order by a.id
limit $2::int

-- The newest letter of a topic by index: of what did not come from one, by its source, or by its topic where nothing
-- but an original topic was given.
-- name: topics
select k.topic, k.source, k.pending, k.retrying, k.resolved, k.dead,
    coalesce(
        (select m.created_at from dlq.dlq_messages m where m.source_topic = k.topic and m.source = k.source
         order by m.created_at desc, m.id desc limit 1),
        (select m.created_at from dlq.dlq_messages m
         where m.source = k.source and m.source <> 'kafka' and m.original_topic = k.topic
         order by m.created_at desc, m.id desc limit 1),
        (select m.created_at from dlq.dlq_messages m
         where m.original_topic = k.topic and m.source_topic is distinct from m.original_topic
             and m.source_topic is null and m.source = k.source
         order by m.created_at desc, m.id desc limit 1),
        '-infinity')
from (
    select c.topic, c.source,
        coalesce(sum(c.letters) filter (where c.status = 'PENDING'), 0)::bigint as pending,
        coalesce(sum(c.letters) filter (where c.status = 'RETRYING'), 0)::bigint as retrying,
        coalesce(sum(c.letters) filter (where c.status = 'RESOLVED'), 0)::bigint as resolved,
        coalesce(sum(c.letters) filter (where c.status = 'DEAD'), 0)::bigint as dead
    from dlq.dlq_counts c
    group by c.topic, c.source
    having sum(c.letters) > 0
) k
order by k.topic collate "C", k.source collate "C"

-- Parameters: topic, limit.
-- name: destinations
select c.original_topic, c.source, sum(c.letters)::bigint
from (
    select k.original_topic, k.source, k.status, k.letters
    from dlq.dlq_counts k
    where k.topic = $1::text
    union all
    select k.original_topic, k.source, k.status, k.letters
    from dlq.dlq_counts k
    where k.original_topic = $1::text and k.topic <> $1::text
) c
where c.status in ('PENDING', 'RETRYING')
group by c.original_topic, c.source
having sum(c.letters) > 0
order by 3 desc, c.original_topic collate "C", c.source collate "C"
limit $2::int

-- The conditions are in the update itself: there they are checked again in the version that the lock gave. A retry that
-- did not end is resumed. Parameters: ids, owner, lease in seconds, actor. Answers id, whether it began, else whether
-- one is under way, and whether it resumes one.
-- name: begin_retry
with held as materialized (
    select i.id, m.status, m.live, m.died
    from unnest($1::text[]::uuid[]) as i (id)
    cross join lateral (
        select m.status, not {free} as live, m.retry_owner is not null as died
        from dlq.dlq_messages m
        where m.id = any (array[i.id])
        for no key update of m
    ) m
), begun as (
    update dlq.dlq_messages m
    set status = 'RETRYING',
        retry_count = m.retry_count + case when m.retry_owner is null then 1 else 0 end,
        retried_before_at = case when m.retry_owner is null then m.last_retry_at else m.retried_before_at end,
        last_retry_at = now(), updated_at = now(), in_doubt = m.in_doubt or m.retry_owner is not null,
        retry_owner = $2::text, retry_expires_at = now() + $3::float8 * interval '1 second'
    from held h
    where m.id = any (array[h.id])
        and {wanted}
        and {free}
        and (m.retry_count < m.max_retries or m.retry_owner is not null)
    returning m.id, h.status, h.died
), trail as (
    insert into dlq.dlq_audit (message_id, action, actor, status_from, status_to, detail)
    select b.id, 'retry_begun', $4::text, b.status, 'RETRYING',
        case when b.died then 'an earlier retry did not end: it may have been published' end
    from begun b
)
select b.id::text, true, false, b.died from begun b
union all
select h.id::text, false, h.live, false from held h

-- The same as retry_effect() in store/letter_rules.h. The results are 0 published, 1 failed, 2 in doubt, 3 not tried,
-- 4 unpublished, 5 returned to its lane. What a redrive began counts for it.
-- Parameters: owner, actor, ids, results, details. Answers how many applied.
-- name: end_retry
with ended as (
    update dlq.dlq_messages m
    set status = case when i.result in (0, 4, 5) then 'RESOLVED'
                      when i.result = 1 and m.retry_count >= m.max_retries then 'DEAD'
                      when i.result = 3 and m.retry_count <= 1 and not m.in_doubt then 'PENDING'
                      else 'RETRYING' end,
        retry_count = case i.result when 3 then greatest(m.retry_count - 1, m.in_doubt::int) else m.retry_count end,
        last_retry_at = case i.result when 3 then m.retried_before_at else m.last_retry_at end,
        last_retry_error = case when i.result in (0, 4, 5) then null
                                when i.result = 3 then m.last_retry_error
                                else i.detail end,
        in_doubt = case when i.result in (0, 4, 5) then false else m.in_doubt or i.result = 2 end,
        retry_owner = null, retry_expires_at = null, updated_at = now()
    from unnest($3::text[]::uuid[], $4::int[], $5::text[]) as i (id, result, detail)
    where m.id = any (array[i.id]) and m.retry_owner = $1::text
    returning m.id, m.status, i.result, i.detail
), trail as (
    insert into dlq.dlq_audit (message_id, action, actor, status_from, status_to, detail)
    select e.id,
        case e.result when 0 then 'published' when 2 then 'retry_in_doubt' when 4 then 'resolved_unpublished'
                      when 5 then 'returned' else 'retry_failed' end,
        $2::text, 'RETRYING', e.status, nullif(e.detail, '')
    from ended e
), counted as (
    update deliverd.redrives r
    set published = r.published + (select count(*) from ended where result in (0, 4, 5)),
        failed = r.failed + (select count(*) from ended where result = 1),
        in_doubt = r.in_doubt + (select count(*) from ended where result = 2), updated_at = now()
    where r.owner = $1::text and not r.finished
)
select count(*) from ended

-- Parameter: id.
-- name: lock_letter
select {origin}, m.stack_trace, {retries}, m.payload::text, {state}
from dlq.dlq_messages m
where m.id = $1::uuid
for no key update

-- Parameters: id, actor.
-- name: mark_dead
with dead as (
    update dlq.dlq_messages m
    set status = 'DEAD', retry_owner = null, retry_expires_at = null, updated_at = now()
    from (select o.id, o.status from dlq.dlq_messages o where o.id = $1::uuid) before
    where m.id = before.id and m.status in ('PENDING', 'RETRYING') and {free}
    returning m.id, before.status
)
insert into dlq.dlq_audit (message_id, action, actor, status_from, status_to)
select d.id, 'dead', $2::text, d.status, 'DEAD' from dead d

-- Parameters: id, actor.
-- name: revive
with revived as (
    update dlq.dlq_messages m
    set status = 'PENDING', retry_count = 0, updated_at = now()
    where m.id = $1::uuid and m.status = 'DEAD' and m.outbox is distinct from 'orders'
    returning m.id
)
insert into dlq.dlq_audit (message_id, action, actor, status_from, status_to)
select r.id, 'revived', $2::text, 'DEAD', 'PENDING' from revived r

-- Parameters: id, actor. Answers 1 where there is one, and 1 where it was deleted.
-- name: remove_letter
with held as materialized (
    select m.id from dlq.dlq_messages m where m.id = $1::uuid for update
), gone as (
    delete from dlq.dlq_messages m using held h where m.id = h.id and {free} returning m.id, m.status
), trail as (
    insert into dlq.dlq_audit (message_id, action, actor, status_from)
    select g.id, 'deleted', $2::text, g.status from gone g
)
select (select count(*) from held), (select count(*) from gone)

-- A letter is not younger than its last change, so that the index by age finds what may be old enough. Many of these
-- may have to stay, for their status or their last change: a statement looks at $7 of them at most, and no further than
-- it must. Parameters: status, age in seconds, limit, behind which created_at and id, actor, how many to look at.
-- Answers how many were deleted, and the created_at and id to continue behind: null when there are no more.
-- name: purge_letters
with look as materialized (
    select m.id, m.created_at,
        m.status = $1::text and m.updated_at < now() - $2::float8 * interval '1 second' and {free} as old
    from dlq.dlq_messages m
    where m.created_at < now() - $2::float8 * interval '1 second'
        and (m.created_at, m.id) > ($4::timestamptz, $5::uuid)
        and coalesce((select sum(c.letters) > 0 from dlq.dlq_counts c where c.status = $1::text), false)
    order by m.created_at, m.id
    limit $7::int
), old as materialized (
    select l.id, l.created_at
    from look l
    cross join lateral (
        select m.id
        from dlq.dlq_messages m
        where m.id = any (array[l.id]) and m.status = $1::text
            and m.updated_at < now() - $2::float8 * interval '1 second' and {free}
        for update of m skip locked
    ) m
    where l.old
    limit $3::int
), gone as (
    delete from dlq.dlq_messages m using old where m.id = any (array[old.id]) returning m.id
), trail as (
    insert into dlq.dlq_audit (message_id, action, actor, status_from)
    select g.id, 'purged', $6::text, $1::text from gone g
)
select (select count(*) from gone), reached.created_at, reached.id::text
from (select count(*) = $3::int as is_full from old) found
left join lateral (
    (select o.created_at, o.id from old o where found.is_full order by o.created_at desc, o.id desc limit 1)
    union all
    (select l.created_at, l.id
     from look l
     where case when found.is_full then false else (select count(*) from look) = $7::int end
     order by l.created_at desc, l.id desc
     limit 1)
) reached on true

-- Lines are never changed, so that one is deleted at the place where it was found. Parameters: age in seconds, limit,
-- from when on. Answers how many were deleted, and the time of the last line.
-- name: purge_history
with ended as (
    delete from deliverd.redrives r
    where r.topic in (
        select e.topic
        from deliverd.redrives e
        where e.finished and (e.updated_at < now() - $1::float8 * interval '1 second'
                              or e.up_to_id = '00000000-0000-0000-0000-000000000000')
        limit $2::int
        for update skip locked)
    returning 1
), old as materialized (
    select a.ctid as place, a.at
    from dlq.dlq_audit a
    where a.at < now() - $1::float8 * interval '1 second' and a.at >= $3::timestamptz
    order by a.at
    limit greatest(0, $2::int - (select count(*) from ended))
), gone as (
    delete from dlq.dlq_audit a using old o where a.ctid = o.place returning 1
)
select (select count(*) from ended) + (select count(*) from gone), (select max(o.at) from old o)

-- Parameters: owner, ids. Answers id, lane, outbox and row of the letters whose retry is the owner's, and where the
-- events of the lane are, in quoted names.
-- name: owned_letters
select m.id::text, m.lane, m.outbox, m.outbox_row_id, quote_ident(t.table_schema) || '.' || quote_ident(t.table_name),
    quote_ident(t.id_column), t.id_type, quote_ident(t.published_column), quote_ident(t.retry_count_column),
    quote_ident(t.next_attempt_at_column), quote_ident(t.dead_at_column), quote_ident(t.event_id_column)
from unnest($2::text[]::uuid[]) as i (id)
cross join lateral (
    select m.id, m.lane, m.outbox, m.outbox_row_id
    from dlq.dlq_messages m
    where m.id = any (array[i.id]) and m.retry_owner = $1::text
    for no key update of m
) m
left join deliverd.event_tables t on t.lane = m.lane

-- Parameter: ids. Answers those that were returned.
-- name: return_memories
update {schema}.outbox_memory o
set status = 'pending', retry_count = 0, next_attempt_at = now(), locked_at = null, locked_by = null,
    updated_at = now()
where o.outbox_id = any ($1::text[]::bigint[]) and o.status = 'dead'
returning o.outbox_id::text

-- One failure stays counted: that keeps the later rows of its aggregate behind it until it was sent. With none, a relay
-- whose position is past it would find them first. {unpublished} is a condition on o. Parameter: ids.
-- name: return_events
update {table} o
set {dead_at} = null, {retry_count} = 1, {next_attempt_at} = null
where o.{id} = any ($1::text[]::{id_type}[]) and o.{dead_at} is not null and {unpublished}
returning o.{id}::text

-- The same where failures are kept in lines of their own. {same_event}: the row is still about the event that failed.
-- Parameters: ids, lane.
-- name: return_event_lines
update deliverd.event_failures f
set dead_at = null, retry_count = 1, next_attempt_at = null
from {table} o
where f.lane = $2::text and f.row_id = any ($1::text[]) and f.dead_at is not null
    and o.{id} = f.row_id::{id_type} and {same_event} and {unpublished}
returning f.row_id

-- A uuid does not fit into outbox_id: it is in the column for keys. Parameters: outbox, ids, actor.
-- name: note_returned
insert into {schema}.outbox_audit (outbox, outbox_id, idempotency_key, reason, status_from, status_to, actor)
select $1::text,
    case when i.id ~ '^-?[0-9]+$' then i.id::bigint else 0 end,
    case when i.id ~ '^-?[0-9]+$' then null else i.id end,
    'dead_letter_returned', 'dead', 'pending', $3::text
from unnest($2::text[]) as i (id)
