-- The relay's statements on one event table, and the pieces they are made of. event_sql.cc fills in what depends on
-- the table:
--   {table}, {id}, {aggregate_id}, {published}, …   the table and its columns, quoted
--   {o.retries}, {w.unpublished}, …                 conditions and values of the row o, and of the row w
--   {f.about_o}, …                                  the line f of failures is about the event in the row o
--   {by_outbox_open}, …                             "indexed by" one of the migration's indexes, where they are there
--   {lane}, {now}                                   the parameter that holds the lane; the present time
-- o is the row that a statement is about; w is one that o may have to wait for. Failures are kept in the table itself
-- (own_…) or, if it has no columns for them, in lines of deliverd_event_failures (lines_…). A line is found by the id
-- of its row, and a table may use an id again: a line about an earlier event counts for nothing.
--
-- Parameters of the reading statements: 1 shards as a JSON array, 2 limit, 3 after, 4 up to or the aggregate, 5 lane.
-- Parameters of the settling ones: 1 id, 2 failures before, 3 error, 4 delay as a modifier, 5 lane, 6 the id as text,
-- 7 aggregate.

-- part: line
deliverd_event_failures as f where f.lane = {lane} and f.row_id = cast(o.{id} as text) and {f.about_o}

-- name: lines_fresh
not exists (select 1 from {line})

-- name: lines_dead
exists (select 1 from {line} and f.dead_at is not null)

-- name: lines_not_waiting
not exists (select 1 from {line} and (f.dead_at is not null or coalesce(f.next_attempt_at, '') > {now}))

-- A failed row w of o's aggregate: {compare} its id with o's, {state} of it.
-- name: own_failed_before
exists (
        select 1
        from {table} as w{by_index}
        where w.{aggregate_id} = o.{aggregate_id} and w.{id} {compare} o.{id} and {w.unpublished} and {state}
    )

-- Where the aggregate may be null: all rows without one belong to the empty aggregate. They have a probe of their own,
-- so that an index of the column still serves the others.
-- name: own_failed_before_nullable
(
        exists (
            select 1
            from {table} as w
            where w.{aggregate_id} = o.{aggregate_id} and w.{id} {compare} o.{id} and {w.unpublished} and {state}
        )
        or ({o.aggregate} = '' and exists (
            select 1
            from {table} as w
            where {w.aggregate} = '' and w.{id} {compare} o.{id} and {w.unpublished} and {state}
        ))
    )

-- name: lines_failed_before
exists (
        select 1
        from deliverd_event_failures as f
        join {table} as w on w.{id} = f.row_id and {f.about_w}
        where f.lane = {lane} and f.aggregate_id = {o.aggregate} and w.{id} {compare} o.{id} and {w.unpublished}
            and {state}
    )

-- part: row
o.{id}, o.{aggregate_id}, o.{event_type}, o.{payload}, {message_id}, {its_metadata}, {created}, {age},
    {its_aggregate_type}, {failures}, {shard}

-- name: forward
select {row}
from {table} as o{by_outbox_open}
where {open} and {fresh}{range} and {in_shards} and not {behind_waiting} and not {behind_dead}
order by o.{id}
limit ?2

-- name: own_failed_rows
{table} as o{by_outbox_waiting_due}
where o.{retry_count} > 0

-- name: lines_failed_rows
deliverd_event_failures as f
join {table} as o on o.{id} = f.row_id and {f.about_o}
where f.lane = {lane} and f.dead_at is null

-- name: due
select {row}
from {failed_rows} and {open} and {due_at} <= {now} and {in_shards} and not {behind_waiting} and not {behind_dead}
order by {due_at}, o.{id}
limit ?2

-- name: own_open_rows
{table} as o{by_outbox_open_aggregate}
where {open}

-- name: lines_open_rows
{table} as o
left join deliverd_event_failures as f on f.lane = {lane} and f.row_id = cast(o.{id} as text) and {f.about_o}
where {open} and f.dead_at is null

-- name: follow
select {row}
from {open_rows} and {followed_aggregate} = ?4{range} and {in_shards} and not {behind_waiting} and not {behind_dead}
order by o.{id}
limit ?2

-- The row that a settlement is about, as long as it is as it was read.
-- name: own_unchanged
o.{id} = ?1 and {open} and {o.retries} = ?2

-- name: lines_unchanged
o.{id} = ?1 and {open}
    and coalesce((
        select iif(f.dead_at is null, f.retry_count, -1)
        from deliverd_event_failures as f
        where f.lane = {lane} and f.row_id = ?6 and {f.about_o}
    ), 0) = ?2

-- name: sent_and_marked
update {table} as o
set {published} = 1{published_when}
where {unchanged}

-- name: sent_and_removed
delete from {table} as o
where {unchanged}

-- name: own_failed
update {table} as o
set {retry_count} = ?2 + 1, {last_error} = ?3, {changed_time}
where {unchanged}

-- A line about an earlier event is overwritten.
-- name: lines_failed
insert into deliverd_event_failures (lane, row_id, aggregate_id, event_id, retry_count, last_error, next_attempt_at,
    dead_at)
select {lane}, ?6, ?7, {kept_event_id}, ?2 + 1, ?3, {changed_time}
from {table} as o
where {unchanged}
on conflict (lane, row_id) do update
set aggregate_id = excluded.aggregate_id, event_id = excluded.event_id, retry_count = excluded.retry_count,
    next_attempt_at = excluded.next_attempt_at, last_error = excluded.last_error, dead_at = excluded.dead_at

-- 1 lane.
-- name: first_age
select {age}
from {table} as o{by_outbox_open}
where {open} and {not_waiting}
order by o.{id}
limit 1

-- The oldest, for ids without an order: reads all open rows. 1 lane.
-- name: highest_age
select max({age})
from {table} as o{by_outbox_open}
where {open} and {not_waiting}

-- 1 lane.
-- name: counts
select count(*) filter (where {o.unpublished} and not {dead}), count(*) filter (where not ({o.unpublished})),
    count(*) filter (where {o.unpublished} and {dead})
from {table} as o

-- 1 the age as a modifier, 2 limit.
-- name: remove_published
delete from {table}
where {id} in (
    select o.{id}
    from {table} as o{by_outbox_published}
    where o.{published} and {published_time} < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?1)
    order by {published_time}
    limit ?2
)
