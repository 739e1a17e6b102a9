-- Redrives: deliverd.redrives. A topic's letters are in two parts, none of them in both.

-- part: from_topic
m.source_topic = any (array[$1::text])

-- part: once_of_topic
m.original_topic = any (array[$1::text]) and m.source_topic is distinct from m.original_topic

-- The columns that redrive_at() reads.
-- part: redrive
r.topic, r.actor, r.position_created_at, r.position_id::text, r.up_to_created_at, r.up_to_id::text, r.published,
    r.failed, r.in_doubt, r.taken_over, r.finished

-- What a process that died had begun becomes free. The redrive's row stays locked until open_redrive takes it in the
-- same transaction. Parameters: topic, owner.
-- name: free_redrive
with lost as materialized (
    select r.owner, r.position_created_at as at, r.position_id as id
    from deliverd.redrives r
    where r.topic = $1::text and r.owner <> $2::text and not r.finished and r.expires_at < now()
    for update
)
update dlq.dlq_messages d
set retry_expires_at = '-infinity'
from (
    select m.id
    from lost l
    join dlq.dlq_messages m on {from_topic} and m.retry_owner = l.owner and (m.created_at, m.id) <= (l.at, l.id)
    union all
    select m.id
    from lost l
    join dlq.dlq_messages m on {once_of_topic} and m.retry_owner = l.owner and (m.created_at, m.id) <= (l.at, l.id)
) w
where d.id = any (array[w.id])

-- One that is resumed starts over: what lies before the position and was given back, or begun by a process that died,
-- is found again, and what it has tried is left out (see `retryable`).
-- Parameters: topic, owner, actor, lease in seconds. Answers it, unless another process has it.
-- name: open_redrive
insert into deliverd.redrives as r (topic, actor, owner, expires_at, up_to_created_at, up_to_id)
select $1::text, $3::text, $2::text, now() + $4::float8 * interval '1 second',
    coalesce(newest.created_at, '-infinity'),
    coalesce(newest.id, '00000000-0000-0000-0000-000000000000'::uuid)
from (values (1)) as one
left join lateral (
    select p.id, p.created_at
    from ((select m.id, m.created_at from dlq.dlq_messages m where {from_topic}
           order by m.source_topic desc, m.created_at desc, m.id desc limit 1)
          union all
          (select m.id, m.created_at from dlq.dlq_messages m where {once_of_topic}
           order by m.original_topic desc, m.created_at desc, m.id desc limit 1)) p
    order by p.created_at desc, p.id desc
    limit 1
) newest on true
on conflict (topic) do update
set actor = case when r.finished then excluded.actor else r.actor end,
    owner = excluded.owner, expires_at = excluded.expires_at,
    position_created_at = case when r.owner = excluded.owner and not r.finished then r.position_created_at end,
    position_id = case when r.owner = excluded.owner and not r.finished then r.position_id end,
    up_to_created_at = case when r.finished then excluded.up_to_created_at else r.up_to_created_at end,
    up_to_id = case when r.finished then excluded.up_to_id else r.up_to_id end,
    published = case when r.finished then 0 else r.published end,
    failed = case when r.finished then 0 else r.failed end,
    in_doubt = case when r.finished then 0 else r.in_doubt end,
    taken_over = case when r.finished then 0 else r.taken_over end,
    started_at = case when r.finished then now() else r.started_at end,
    finished = false, updated_at = now()
where r.finished or r.expires_at < now() or r.owner = excluded.owner
returning {redrive}

-- What next_of_redrive needs of a letter before it begins it.
-- part: candidate
m.ctid as place, m.id, m.created_at, m.retry_owner is not null as taken_over,
        coalesce(octet_length(m.record_key), 0)
            + coalesce(octet_length(m.record_value), octet_length(m.payload::text), 0)
            + pg_column_size(m.record_headers) as bytes

-- part: window
(m.created_at, m.id) > ((select at from mine), (select id from mine))
        and (m.created_at, m.id) <= ((select up_to_created_at from mine), (select up_to_id from mine))

-- See `wanted` in dead_letters.sql. What the redrive has tried already is not tried again, though it may come across it
-- once more.
-- part: retryable
m.status in ('PENDING', 'RETRYING')
        and case when m.lane is null then not m.truncated
                 else m.outbox <> 'orders' and m.outbox_row_id is not null end
        and not (m.source = 'kafka' and m.original_topic = any ($7::text[]))
        and case when m.retry_owner is not null then m.retry_expires_at < now()
                 else m.retry_count < m.max_retries
                     and (m.status = 'RETRYING' and m.last_retry_at >= (select started_at from mine)) is not true end

-- A retry whose process died is resumed: it is the same one, and does not count again. Waits for no letter's lock: who
-- has it is at work on the letter. A letter is looked up once: the scan that finds it locks it too, and the update goes
-- to its place. One that changed in between is not seen there and is left out, like one that is locked. The answer is
-- read at that place too, as it was before the update: as what the update returns, the whole row would be copied three
-- times on its way out. In no order. The redrive's row is held against those who would take it over (free_redrive), not
-- against its own pages that end meanwhile and count there: with a stronger lock beginning and ending would take turns.
-- Parameters: topic, owner, limit, lease in seconds, actor, limit in bytes, original topics to leave out. Answers the
-- columns that detail_at() reads, and behind them whether the redrive is the owner's, how many letters were looked at,
-- and whether this retry resumes another. One line without a letter where none was begun. A replay has no use for the
-- stack trace, nor for the payload where there is a value: the text of JSON costs more than all the other columns.
-- name: next_of_redrive
with mine as materialized (
    select coalesce(r.position_created_at, '-infinity') as at,
        coalesce(r.position_id, '00000000-0000-0000-0000-000000000000'::uuid) as id,
        r.up_to_created_at, r.up_to_id, r.started_at, $3::int as room
    from deliverd.redrives r
    where r.topic = $1::text and r.owner = $2::text and not r.finished
    for key share
), from_topic as materialized (
    select {candidate}
    from dlq.dlq_messages m
    where {from_topic}
        and {window}
        and {retryable}
    order by m.source_topic, m.created_at, m.id
    limit (select room from mine)
    for no key update of m skip locked
), once_of_topic as materialized (
    select {candidate}
    from dlq.dlq_messages m
    where {once_of_topic}
        and {window}
        and {retryable}
    order by m.original_topic, m.created_at, m.id
    limit (select room from mine)
    for no key update of m skip locked
), found as materialized (
    select p.place, p.id, p.created_at, p.taken_over,
        sum(p.bytes) over (order by p.created_at, p.id rows unbounded preceding) - p.bytes as bytes_before
    from (select * from from_topic union all select * from once_of_topic) p
    order by p.created_at, p.id
    limit (select room from mine)
), next as materialized (
    select * from found where bytes_before < $6::bigint
), begun as (
    update dlq.dlq_messages m
    set status = 'RETRYING', retry_count = m.retry_count + case when h.taken_over then 0 else 1 end,
        retried_before_at = case when h.taken_over then m.retried_before_at else m.last_retry_at end,
        last_retry_at = now(), updated_at = now(), in_doubt = m.in_doubt or h.taken_over, retry_owner = $2::text,
        retry_expires_at = now() + $4::float8 * interval '1 second'
    from next h
    where m.ctid = h.place
    returning m.id, h.taken_over, m.in_doubt
), trail as (
    insert into dlq.dlq_audit (message_id, action, actor, status_from, status_to, detail)
    select b.id, 'retry_begun', $5::text, 'RETRYING', 'RETRYING',
        'an earlier retry did not end: it may have been published'
    from begun b
    where b.taken_over
), reached as (
    select r.created_at, r.id
    from ((select n.created_at, n.id from next n order by n.created_at desc, n.id desc limit 1)
          union all
          (select m.up_to_created_at, m.up_to_id
           from mine m
           where (select count(*) from next) = (select count(*) from found)
               and (select count(*) from found) < m.room)) r
    order by r.created_at desc, r.id desc
    limit 1
), moved as (
    update deliverd.redrives r
    set position_created_at = coalesce((select created_at from reached), r.position_created_at),
        position_id = coalesce((select id from reached), r.position_id),
        taken_over = r.taken_over + (select count(*) from begun where in_doubt),
        expires_at = greatest(r.expires_at, now() + $4::float8 * interval '1 second'), updated_at = now()
    from mine
    where r.topic = $1::text
)
select m.id::text, m.source, m.original_topic, m.original_partition, m.original_offset, m.error_message, m.error_class,
    null::text, m.producer, m.retry_count + case when m.taken_over then 0 else 1 end, m.max_retries,
    case when m.record_value is null then m.payload::text end, 'RETRYING'::text, m.created_at, now(), now(),
    m.last_retry_error, m.in_doubt or m.taken_over, m.source_topic, m.source_partition, m.source_offset, m.lane,
    m.outbox, m.outbox_row_id, coalesce(octet_length(m.record_value), 0)::bigint, m.truncated, false,
    m.record_key, m.record_value, m.record_headers::text, m.record_timestamp_ms, m.record_timestamp_type,
    w.held, w.looked, m.taken_over
from (select (select count(*) from mine) as held, (select count(*) from next) as looked) w
left join (
    select m.*, h.taken_over from next h join dlq.dlq_messages m on m.ctid = h.place
) m on true

-- Parameters: topic, owner. Answers it.
-- name: close_redrive
update deliverd.redrives r
set finished = true, expires_at = now(), updated_at = now()
where r.topic = $1::text and r.owner = $2::text and not r.finished
returning {redrive}

-- Parameters: topic, owner.
-- name: release_redrive
update deliverd.redrives r
set expires_at = '-infinity', updated_at = now()
where r.topic = $1::text and r.owner = $2::text and not r.finished

-- name: abandoned_redrives
select {redrive}
from deliverd.redrives r
where not r.finished and r.expires_at < now()
order by r.topic
