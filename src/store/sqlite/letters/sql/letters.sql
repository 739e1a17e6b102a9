-- Dead letters: storing, looking, changing by hand, purging, and one letter's retry.

-- part: now
strftime('%Y-%m-%dT%H:%M:%fZ', 'now')

-- What letter_at() reads of the table dlq_messages as m.
-- part: letter
m.id, m.source, m.original_topic, m.original_partition, m.original_offset, m.error_message, m.error_class,
    m.stack_trace, m.producer, m.retry_count, m.max_retries, m.payload, m.status, m.created_at, m.updated_at,
    m.last_retry_at, m.last_retry_error, m.in_doubt, m.source_topic, m.source_partition, m.source_offset, m.lane,
    m.outbox, m.outbox_row_id, coalesce(length(m.record_value), 0), m.truncated,
    m.retry_owner is not null and m.retry_expires_at < {now}

-- A page of a listing. {keys}: time and id of the letters to choose from (letter_query.cc). 11 limit, 12 offset.
-- name: letter_page
select {letter}
from (
    select created_at, id
    from ({keys})
    order by created_at desc, id desc
    limit ?11 offset ?12
) as k
cross join dlq_messages as m on m.id = k.id
order by k.created_at desc, k.id desc

-- 1 id, 2 now, 3 to 5 where it was read (topic, partition, offset) or NULLs, 6 and 7 the record's time and its type,
-- 8 key, 9 value, 10 headers, 11 payload, 12 truncated, 13 to 15 where it came from, 16 error, 17 error class, 18
-- stack trace, 19 producer, 20 source.
-- name: store_letter
insert into dlq_messages (id, created_at, updated_at, source_topic, source_partition, source_offset,
    record_timestamp_ms, record_timestamp_type, record_key, record_value, record_headers, payload, truncated,
    original_topic, original_partition, original_offset, error_message, error_class, stack_trace, producer, source)
values (?1, ?2, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)
on conflict (source_topic, source_partition, source_offset, record_timestamp_ms) where source_topic is not null
    do nothing
on conflict (id) do nothing

-- 1 letter.
-- name: find_letter
select {letter}, m.record_key, m.record_value, m.record_headers, m.record_timestamp_ms, m.record_timestamp_type,
    m.retry_owner, m.retry_owner is not null and m.retry_expires_at >= {now}
from dlq_messages as m
where m.id = ?1

-- 1 letter, 2 action, 3 actor, 4 and 5 the status before and after, 6 detail.
-- name: audit_letter
insert into dlq_audit (message_id, action, actor, status_from, status_to, detail) values (?1, ?2, ?3, ?4, ?5, ?6)

-- 1 letter, 2 limit.
-- name: letter_audit
select at, action, actor, status_from, status_to, detail
from dlq_audit
where message_id = ?1
order by id
limit ?2

-- name: topics
select c.topic, c.source,
    sum(iif(c.status = 'PENDING', c.letters, 0)),
    sum(iif(c.status = 'RETRYING', c.letters, 0)),
    sum(iif(c.status = 'RESOLVED', c.letters, 0)),
    sum(iif(c.status = 'DEAD', c.letters, 0)),
    max(
        coalesce((
            select m.created_at
            from dlq_messages as m indexed by dlq_messages_source_topic
            where m.source_topic = c.topic and m.source = c.source
            order by m.created_at desc
            limit 1
        ), ''),
        coalesce((
            select m.created_at
            from dlq_messages as m indexed by dlq_messages_elsewhere
            where m.source_topic is null and m.original_topic = c.topic and m.source = c.source
            order by m.created_at desc
            limit 1
        ), '')
    )
from dlq_counts as c
group by c.topic, c.source
order by c.topic, c.source

-- 1 topic, 2 limit.
-- name: destinations
select original_topic, source, sum(letters)
from dlq_counts
where (topic = ?1 or original_topic = ?1) and status in ('PENDING', 'RETRYING')
group by original_topic, source
order by 3 desc, original_topic, source
limit ?2

-- 1 letter.
-- name: mark_dead
update dlq_messages
set status = 'DEAD', retry_owner = null, retry_expires_at = null, updated_at = {now}
where id = ?1

-- 1 letter.
-- name: revive
update dlq_messages
set status = 'PENDING', retry_count = 0, updated_at = {now}
where id = ?1

-- 1 letter.
-- name: remove_letter
delete from dlq_messages where id = ?1

-- 1 status, 2 age as a modifier, 3 limit. What is being retried changed its time a moment ago, or its lease is longer
-- than the age.
-- name: purge
delete from dlq_messages
where id in (
    select id
    from dlq_messages indexed by dlq_messages_purge
    where status = ?1
        and updated_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?2)
        and (retry_owner is null or retry_expires_at < {now})
    order by updated_at
    limit ?3
)
returning id

-- 1 age as a modifier, 2 limit.
-- name: purge_redrives
delete from deliverd_redrives
where topic in (
    select topic
    from deliverd_redrives
    where finished
        and (updated_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?1)
            or up_to_id = '00000000-0000-0000-0000-000000000000')
    limit ?2
)

-- The same. Lines are numbered as they are written: the oldest have the lowest numbers.
-- name: purge_audit
delete from dlq_audit
where id in (select id from dlq_audit order by id limit ?2)
    and at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?1)

-- 1 letter, 2 owner, 3 the lease as a modifier, 4 how much it counts, 5 whether one before it may have been
-- published, 6 the earliest time it may have.
-- name: begin_retry
update dlq_messages
set status = 'RETRYING', retry_count = retry_count + ?4,
    retried_before_at = iif(?4, last_retry_at, retried_before_at), last_retry_at = max(?6, {now}), updated_at = {now},
    retry_owner = ?2, in_doubt = in_doubt or ?5, retry_expires_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?3)
where id = ?1

-- 1 letter, 2 status, 3 count, 4 in doubt, 5 error or NULL, 6 whether it was tried.
-- name: end_retry
update dlq_messages
set status = ?2, retry_count = ?3, in_doubt = ?4, last_retry_error = ?5,
    last_retry_at = iif(?6, last_retry_at, retried_before_at), retry_owner = null, retry_expires_at = null,
    updated_at = {now}
where id = ?1
