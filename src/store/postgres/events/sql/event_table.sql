-- The relay's statements on one event table, and the pieces they are made of. event_sql.cc fills in what depends on the
-- table:
--   {table}, {id}, {aggregate_id}, {published}, …   the table and its columns, quoted
--   {id_type}                                       bigint or uuid
--   {payload_text}, {payload_bytes}, …              what is read of the row o: its text, and its length
--   {o.open}, {w.unpublished}, …                    conditions and values of the row o, and of the row w
--   {f.about_o}, …                                  the line f of failures is about the event in the row o
--   {lane}                                          the parameter that holds the lane
-- o is the row that a statement is about; w is one that o may have to wait for. Failures are kept in the table itself
-- (own_…) or, if it has no columns for them, in lines of deliverd.event_failures (lines_…). A line is found by the id
-- of its row, and a table may use an id again: a line about an earlier event counts for nothing.

-- Neither published nor given up.
-- name: own_open
{o.unpublished} and o.{dead_at} is null

-- Open, and no attempt has failed.
-- name: own_fresh
{o.unpublished} and o.{dead_at} is null and {o.retry_count} = 0

-- part: line
deliverd.event_failures x where x.lane = {lane} and x.row_id = o.{id}::text and {x.about_o}

-- name: lines_open
{o.unpublished} and not exists (select from {line} and x.dead_at is not null)

-- name: lines_fresh
{o.unpublished} and not exists (select from {line})

-- name: lines_failures
coalesce((select x.retry_count from {line}), 0)

-- No row w of o's aggregate for which {which} holds waits for its retry, or was given up, as {state} says. A subquery
-- of its own, which the planner cannot turn into a join: one probe of an index per row, however many rows wait.
-- part: such_a_row
{which} and {w.unpublished} and {state} limit 1

-- name: own_none
(select 1 from {table} w where w.{aggregate_id} = o.{aggregate_id} and {such_a_row}) is null

-- Where the aggregate may be null: all rows without one belong to the empty aggregate. They have a probe of their own,
-- so that an index of the column still serves the others.
-- name: own_none_nullable
((select 1 from {table} w where w.{aggregate_id} = o.{aggregate_id} and {such_a_row}) is null
    and ({o.aggregate_text} <> ''
        or (select 1 from {table} w where {w.aggregate_text} = '' and {such_a_row}) is null))

-- A line whose row is gone counts for nothing.
-- name: lines_none
(select 1
    from deliverd.event_failures f
    join {table} w on w.{id} = f.row_id::{id_type} and {f.about_w}
    where f.lane = {lane} and f.aggregate_id = {o.aggregate_text} and {state} and {which} and {w.unpublished}
    limit 1) is null

-- Nothing waits at all, which is so most of the time: asked once per statement, it saves a probe per row. The condition
-- on the due time fits the index of due times and no other.
-- name: own_nothing_waits
(select 1
    from {table} w
    where {w.retry_count} > 0 and {w.unpublished} and w.{dead_at} is null and {w.due_at} <= 'infinity'
    order by {w.due_at}
    limit 1) is null

-- name: lines_nothing_waits
(select 1 from deliverd.event_failures f where f.lane = {lane} limit 1) is null

-- What the reading statements answer, with the row's own length in place of kEventBytes. Both lengths are
-- below 2^30.
-- part: row
o.{id}::text as id, {aggregate_id_text} as aggregate, {event_type_text} as type, {payload_text} as payload,
        {event_id_text} as message_id, {metadata_text} as metadata, {aggregate_type_text} as aggregate_type,
        {created} as created_at, now() as read_at, ({failures})::int as failures, {shard} as shard,
        {payload_bytes} + {metadata_bytes} as bytes

-- The rows of `found` in their order, until those before a row have as many bytes as the limit. A window without an
-- order takes the rows as they come and sorts nothing.
-- part: until_bytes
counted as (
    select *, sum(bytes) over (rows between unbounded preceding and current row) as so_far from found
)
select id, aggregate, type, payload, message_id, metadata, aggregate_type, created_at, read_at, failures, shard, so_far
from counted

-- Parameters: limit, byte limit [, after, up to].
-- name: forward
with found as (
    select {row}
    from {table} o
    where {o.fresh} and {in_range} and {in_shards} and ({nothing_waits} or {none_waits_before}) and {none_dead_before}
    order by {o.order}
    limit $1::int
), {until_bytes}
where so_far - bytes < $2::bigint

-- name: own_failed_rows
{table} o
    where {o.retry_count} > 0 and {o.open} and o.{id} is not null

-- name: lines_failed_rows
deliverd.event_failures f
    join {table} o on o.{id} = f.row_id::{id_type} and {f.about_o}
    where f.lane = {lane} and f.dead_at is null and {o.unpublished}

-- Of an aggregate's waiting rows only the first. Parameters: limit, byte limit.
-- name: due
with found as (
    select {row}
    from {failed_rows} and {o.due_at} <= now() and {in_shards} and {none_waits_before} and {none_dead_before}
    order by {o.due_at}, o.{id}
    limit $1::int
), {until_bytes}
where so_far - bytes < $2::bigint

-- The open rows of an aggregate from a position on. What holds a row back holds back all behind it, so the limit comes
-- first: a long aggregate that waits is not walked.
-- part: open_rows
{is_behind} and {o.open}
        order by {o.order}
        limit $3::int

-- name: rows_of_aggregate
(
        select o.*
        from {table} o
        where o.{aggregate_id} = i.aggregate::{aggregate_id_type} and {open_rows}
    )

-- name: rows_of_nullable_aggregate
(
        select *
        from (
            (select o.* from {table} o
             where o.{aggregate_id} = nullif(i.aggregate, '')::{aggregate_id_type} and {open_rows})
            union all
            (select o.* from {table} o where i.aggregate = '' and {o.aggregate_text} = '' and {open_rows})
        ) o
        order by {o.order}
        limit $3::int
    )

-- Parameters: aggregates, positions, rows per aggregate, byte limit. Positions count only where ids are numbers.
-- name: follow
with found as (
    select {row}
    from unnest($1::text[], $2::bigint[]) with ordinality as i (aggregate, after, place)
    cross join lateral {rows_of_aggregate} o
    where {none_waits_before} and {none_dead_before} and {in_shards}
    order by i.place, {o.order}
), {until_bytes}
where so_far - bytes < $4::bigint

-- The leases of a batch of settlements that are still the owner's, locked so that they stay the owner's until the
-- commit, one after the other as they come. tend() locks them in this order too, so that the two cannot deadlock. A
-- lease that ran out and that no other relay took is still the owner's.
-- part: held
held as materialized (
    select p.place::int as lease
    from unnest($3::int[], $4::bigint[]) with ordinality as p (shard, token, place)
    cross join lateral (
        select 1
        from deliverd.shards s
        where s.lane = $1::text and s.shard = p.shard and s.owner = $2::text and s.token = p.token
        for share
    ) s
)

-- name: sent_batch
unnest({ids}, $6::int[], $7::int[]) as i (id, lease, failures)

-- name: failed_batch
unnest({ids}, $6::int[], $7::int[], $8::text[], $9::float8[], $10::int[])
        as i (id, lease, failures, note, delay_seconds, dead)

-- The row o of the settlement i, if it may be settled. The array of one id forces a look-up: otherwise a planner that
-- takes the table for nearly empty walks over a whole index beside the batch.
-- part: applies
o.{id} = any (array[i.id]) and i.lease = any ((select array_agg(lease) from held)::int[]) and {o.still_open}
        and {o.failures} = i.failures

-- For a batch with rows that others have locked: the rows that are free, which it locks. So settling never blocks.
-- part: free_rows
, free as materialized (
    select o.{id} as id
    from {batch}
    join {table} o on {applies}
    order by 1
    for {lock} of o skip locked
)
-- name: own_free
{free_rows}

-- The lines of those that failed before are locked as well.
-- name: lines_free
{free_rows}, lines as materialized (
    select f.row_id
    from free
    join deliverd.event_failures f on f.lane = {lane} and f.row_id = free.id::text
    order by 1
    for update of f skip locked
)

-- The settlements that would apply if nobody had their rows locked.
-- name: locked_rows
union all
select i.id::text, -1
from {batch}
join {table} o on {applies}
where not ({is_free})

-- Answers which of them applied only when not all did; {count} is their number.
-- part: all_applied
(select count(*) from done) = {count}::int
-- part: answer
select d.id::text, null::int from done d where not {all_applied}
union all
select null, h.lease from held h where not {all_applied}
union all
select null, 0 where {all_applied}
{locked_rows}

-- name: sent_and_marked
with {held}{free_rows_of_batch}, done as (
    update {table} o
    set {published} = true{published_when}
    from {batch}
    where {applies} and {is_free}
    returning o.{id} as id, i.failures
){cleared_lines}
{answer}

-- name: sent_and_removed
with {held}{free_rows_of_batch}, done as (
    delete from {table} o
    using {batch}
    where {applies} and {is_free}
    returning o.{id} as id, i.failures
){cleared_lines}
{answer}

-- name: clear_lines
, cleared as (
    delete from deliverd.event_failures f
    using done d
    where f.lane = {lane} and f.row_id = d.id::text and d.failures > 0
)

-- part: next_attempt
case when i.dead = 0 then now() + i.delay_seconds * interval '1 second' end
-- part: died
case when i.dead = 1 then now() end

-- A uuid does not fit into outbox_id: it is in the column for keys.
-- part: trail
trail as (
    insert into {schema}.outbox_audit (outbox, outbox_id, idempotency_key, reason, status_from, status_to, retry_count,
        last_error, worker, actor)
    select 'events', {audited_id}, case d.dead when 1 then 'outbox_flush_dead' else 'outbox_flush_retry' end, 'pending',
        case d.dead when 1 then 'dead' else 'pending' end, d.retry_count, d.note, $2::text, $2::text
    from done d
)

-- name: own_failed
with {held}{free_rows_of_batch}, done as (
    update {table} o
    set {retry_count} = i.failures + 1, {next_attempt_at} = {next_attempt}, {last_error} = i.note, {dead_at} = {died}
    from {batch}
    where {applies} and {is_free}
    returning o.{id} as id, i.failures + 1 as retry_count, i.note, i.dead
), {trail}
{answer}

-- The condition is repeated for the line itself: two settlements of a row at the same time count once. A line about an
-- earlier event is overwritten.
-- name: lines_failed
with {held}{free_rows_of_batch}, done as (
    insert into deliverd.event_failures as f (lane, row_id, aggregate_id, event_id, retry_count, next_attempt_at,
        last_error, dead_at)
    select {lane}, i.id::text, {o.aggregate_text}, {kept_event_id}, i.failures + 1, {next_attempt}, i.note, {died}
    from {batch}
    join {table} o on {applies} and {is_free}
    on conflict (lane, row_id) do update
    set aggregate_id = excluded.aggregate_id, event_id = excluded.event_id, retry_count = excluded.retry_count,
        next_attempt_at = excluded.next_attempt_at, last_error = excluded.last_error, dead_at = excluded.dead_at
    where (f.retry_count = excluded.retry_count - 1 and f.dead_at is null) or {f.about_another}
    returning f.row_id::{id_type} as id, f.retry_count, f.last_error as note, (f.dead_at is not null)::int as dead
), {trail}
{answer}

-- By the primary key, from its end: rows of whatever state count. Parameter: above.
-- name: highest_id
select max(o.{id})::bigint from {table} o where o.{id} > $1::bigint

-- Parameter: the id to look from, where ids are numbers. Answers seconds and the id.
-- name: lag
select {age}, {number}
from {table} o
where {o.fresh} and {from_number}
order by {o.order}
limit 1

-- name: counts
select count(*) filter (where {o.open}), count(*) filter (where not ({o.unpublished})),
    count(*) filter (where {o.unpublished} and not ({o.open}))
from {table} o
