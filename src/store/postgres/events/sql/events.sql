-- Statements on an event table, or on the server, that are nearly the same for every table. Those that depend on its
-- columns are in event_table.sql.

-- By oid: the functions that take names fail where the schema itself may not be used.
-- Parameters: schema, table, columns. Answers a row for each column that exists, or one without a column.
-- name: table_shape
select c.relkind::text, coalesce(p.partstrat::text, ''), has_schema_privilege(n.oid, 'usage'),
    (select string_agg(w.name, ', ')
     from unnest(array['select', 'insert', 'update', 'delete']) as w (name)
     where not has_table_privilege(c.oid, w.name)),
    quote_ident(current_user), a.attname::text,
    case when t.typtype = 'd' then '' else t.typname::text end, format_type(a.atttypid, a.atttypmod), a.attnotnull
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
left join pg_catalog.pg_partitioned_table p on p.partrelid = c.oid
left join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    and a.attname::text = any ($3::text[])
left join pg_catalog.pg_type t on t.oid = a.atttypid
where n.nspname = $1::text and c.relname = $2::text and c.relkind in ('r', 'p', 'v', 'm', 'f')

-- Before a statement that reads the whole table: the planner settings of a session are for looking rows up.
-- name: whole_table
select set_config('enable_seqscan', 'on', true), set_config('enable_hashjoin', 'on', true)

-- Everything that follows in the transaction sees the table as of one moment.
-- name: one_moment
set transaction_isolation = 'repeatable read'

-- "xmin:xmax:xip,…", numbers of 64 bits; and how far the next number to be given out is from the first one. xmax is
-- behind the last transaction that *ended*: open ones from there on are not in the list. Asked last, so that the next
-- number is not older than the snapshot.
-- name: open_writers
select pg_current_snapshot()::text, age('3'::xid)

-- Before a settle: while it waits for a row, its shards cannot have their next heartbeat. Parameter: time.
-- name: brief_lock_waits
select set_config('lock_timeout', $1::text, true)

-- Parameters: lock timeout, statement timeout.
-- name: brief_drop
select set_config('lock_timeout', $1::text, true), set_config('statement_timeout', $2::text, true)

-- Parameters: table, columns of id, published and published_at, age in seconds.
-- name: find_published_partition
select child::oid::int8, rows
from deliverd.published_partition($1::text::regclass, $2::text::name, $3::text::name, $4::text::name,
    $5::float8 * interval '1 second')

-- Parameters: table, partition, column of published.
-- name: drop_published_partition
select deliverd.drop_published_partition($1::text::regclass, $2::int8::oid::regclass, $3::text::name)

-- {id}, {published} and {published_at} are the columns, {id_type} is bigint or uuid.
-- Parameters: behind this id, rows to look at, age in seconds, rows to delete. Answers how many were deleted, the last
-- id looked at, how many were looked at, and how many of these were published but are young.
-- name: remove_published
with look as materialized (
    select o.{id} as id, o.{published} as published,
        o.{published} and o.{published_at} < now() - $3::float8 * interval '1 second' as old
    from {table} o
    where o.{id} > $1::{id_type}
    order by o.{id}
    limit $2::int
), old as materialized (
    select o.{id} as id
    from look l
    join {table} o on o.{id} = l.id
    where l.old and o.{published}
    order by o.{id}
    limit $4::int
    for update of o skip locked
), gone as (
    delete from {table} o using old where o.{id} = old.id returning 1
)
select (select count(*) from gone), (select id::text from look order by id desc limit 1),
    (select count(*) from look), (select count(*) from look where published and not old)

-- Parameters: id, reason, status before and after, retry_count, last_error, detail, actor.
-- name: audit_event
insert into {schema}.outbox_audit (outbox, outbox_id, reason, status_from, status_to, retry_count, last_error, detail,
    actor)
values ('events', $1::bigint, $2::text, $3::text, $4::text, $5::int, $6::text, $7::text, $8::text)
