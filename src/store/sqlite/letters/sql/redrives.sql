-- Redrives. A topic's letters are two ranges, those read from it and those that came from it, each by an index of its
-- own: one condition with OR in it would walk over all letters.

-- part: now
strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
-- part: redrive
select topic, actor, position_created_at, position_id, up_to_created_at, up_to_id, published, failed, in_doubt,
    taken_over, finished, owner, expires_at > {now}, started_at
from deliverd_redrives
-- part: read_from_topic
from dlq_messages as m indexed by dlq_messages_source_topic
        where m.source_topic = ?1
-- part: came_from_topic
from dlq_messages as m indexed by dlq_messages_original_topic
        where m.original_topic = ?1 and m.source_topic is not ?1

-- 1 topic.
-- name: find_redrive
{redrive}
where topic = ?1

-- name: abandoned_redrives
{redrive}
where not finished and expires_at <= {now}
order by topic

-- 1 topic.
-- name: newest_letter
select created_at, id
from (
    select * from (
        select m.created_at, m.id
        {read_from_topic}
        order by m.created_at desc, m.id desc
        limit 1
    )
    union all
    select * from (
        select m.created_at, m.id
        {came_from_topic}
        order by m.created_at desc, m.id desc
        limit 1
    )
)
order by created_at desc, id desc
limit 1

-- 1 topic, 2 actor, 3 owner, 4 the lease as a modifier, 5 and 6 the newest letter. Begins with the next millisecond:
-- what was tried in this one was tried before.
-- name: start_redrive
insert into deliverd_redrives (topic, actor, owner, expires_at, up_to_created_at, up_to_id, started_at)
values (?1, ?2, ?3, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?4), ?5, ?6,
    strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+0.001 seconds'))
on conflict (topic) do update
set actor = excluded.actor, owner = excluded.owner, expires_at = excluded.expires_at, position_created_at = null,
    position_id = null, up_to_created_at = excluded.up_to_created_at, up_to_id = excluded.up_to_id, published = 0,
    failed = 0, in_doubt = 0, taken_over = 0, finished = 0, started_at = excluded.started_at,
    updated_at = excluded.updated_at

-- 1 topic, 2 owner, 3 the lease as a modifier. It never shortens a lease.
-- name: own_redrive
update deliverd_redrives
set owner = ?2,
    expires_at = iif(owner = ?2, max(expires_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?3)),
        strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?3)),
    updated_at = {now}
where topic = ?1

-- 1 owner before, 2 topic. In the past, since a lease runs out only after its last millisecond.
-- name: free_letters
update dlq_messages indexed by dlq_messages_retries
set retry_expires_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 seconds')
where retry_owner = ?1 and (source_topic = ?2 or original_topic = ?2)

-- 1 topic.
-- name: restart_redrive
update deliverd_redrives
set position_created_at = null, position_id = null
where topic = ?1

-- What a redrive has tried already it does not try again, though a new owner reads it once more.
-- part: retriable
and (m.created_at, m.id) > (?2, ?3)
            and (m.created_at, m.id) <= (?4, ?5)
            and m.status in ('PENDING', 'RETRYING')
            and (m.lane is null or (m.outbox <> 'orders' and m.outbox_row_id is not null))
            and not (m.source = 'kafka' and m.original_topic in (select value from json_each(?8)))
            and iif(m.retry_owner is null,
                m.retry_count < m.max_retries and not (m.status = 'RETRYING' and ifnull(m.last_retry_at, '') >= ?6),
                m.retry_expires_at < {now})
        order by m.created_at, m.id
        limit ?7

-- 1 topic, 2 and 3 the position, 4 and 5 the last one, 6 when the redrive began, 7 limit, 8 the topics that are left
-- out.
-- name: redrive_candidates
select created_at, id
from (
    select * from (
        select m.created_at, m.id
        {read_from_topic}
            {retriable}
    )
    union all
    select * from (
        select m.created_at, m.id
        {came_from_topic}
            {retriable}
    )
)
order by created_at, id
limit ?7

-- 1 topic, 2 and 3 the position, 4 how many letters were taken over, 5 the lease as a modifier; it never shortens one.
-- name: move_redrive
update deliverd_redrives
set position_created_at = ?2, position_id = ?3, taken_over = taken_over + ?4,
    expires_at = max(expires_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?5)), updated_at = {now}
where topic = ?1

-- 1 owner, 2 published, 3 failed, 4 in doubt. An owner has one redrive: what it began counts there.
-- name: add_to_redrive
update deliverd_redrives
set published = published + ?2, failed = failed + ?3, in_doubt = in_doubt + ?4, updated_at = {now}
where owner = ?1 and not finished

-- 1 topic.
-- name: finish_redrive
update deliverd_redrives
set finished = 1, updated_at = {now}
where topic = ?1

-- 1 topic, 2 owner. In the past, as in free_letters.
-- name: give_up_redrive
update deliverd_redrives
set expires_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 seconds'), updated_at = {now}
where topic = ?1 and owner = ?2 and not finished
