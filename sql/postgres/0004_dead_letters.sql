-- Dead letters: what consumers and lanes gave up on, who did what about it, and retries of whole topics.
-- docs/dead-letters.md is the contract. ${schema} is the quoted schema of the outbox tables.

do $$
begin
    if to_regnamespace('dlq') is null then
        create schema dlq;
    end if;
end
$$;

-- Only original_topic need be given.
-- A retry writes two new versions of a row and changes no indexed column, neither its status nor its times. The room
-- left in the pages keeps those versions beside the first (HOT): no index is touched by a retry. That is why there is no
-- index by status: with it each of the two would write into every index.
create table dlq.dlq_messages (
    id                    uuid primary key default gen_random_uuid(),
    original_topic        text not null,
    error_message         text not null default 'unknown error',
    retry_count           int not null default 0,
    max_retries           int not null default 3,
    payload               jsonb,
    status                text not null default 'PENDING' check (status in ('PENDING', 'RETRYING', 'RESOLVED', 'DEAD')),
    created_at            timestamptz not null default now(),
    updated_at            timestamptz not null default now(),
    last_retry_at         timestamptz,
    source                text not null default 'kafka',  -- kafka | lane:NAME | spool:NAME
    source_topic          text,
    source_partition      int,
    source_offset         bigint,
    record_timestamp_ms   bigint,
    record_timestamp_type text check (record_timestamp_type in ('none', 'created', 'appended')),
    record_key            bytea,
    record_value          bytea,
    -- An array of {"name", "value_base64"}; "name_base64" in place of a name that is not UTF-8.
    record_headers        jsonb not null default '[]' check (jsonb_typeof(record_headers) = 'array'),
    truncated             boolean not null default false,
    error_class           text,
    stack_trace           text,
    original_partition    int,
    original_offset       bigint,
    producer              text,
    lane                  text,
    outbox                text check (outbox in ('orders', 'events', 'memory')),
    outbox_row_id         text,
    last_retry_error      text,
    in_doubt              boolean not null default false,  -- a retry may have been published though nobody confirmed it
    retry_owner           text,         -- whose retry is under way …
    retry_expires_at      timestamptz   -- … and until when it is only theirs
) with (fillfactor = 60);

-- A record is stored once; the time, because a topic that was made anew counts from 0 again.
create unique index dlq_messages_record on dlq.dlq_messages
    (source_topic, source_partition, source_offset, record_timestamp_ms) where source_topic is not null;
create unique index dlq_messages_lane_row on dlq.dlq_messages (lane, outbox, outbox_row_id) where lane is not null;

-- Listings, which walk them backwards. A topic's letters are those of two of these, merged: the second has none that
-- the first has.
create index dlq_messages_source_topic on dlq.dlq_messages (source_topic, created_at, id) where source_topic is not null;
create index dlq_messages_original_topic on dlq.dlq_messages (original_topic, created_at, id)
    where source_topic is distinct from original_topic;
create index dlq_messages_created on dlq.dlq_messages (created_at, id);
create index dlq_messages_error_class on dlq.dlq_messages (error_class, created_at, id) where error_class is not null;
create index dlq_messages_elsewhere on dlq.dlq_messages (source, created_at, id) where source <> 'kafka';

-- How many letters there are of each kind: the sum of a kind's lines. `topic` is the one a letter was read from, else
-- the original one. A statement adds a line for each kind it changes, so that no two writers wait for each other.
create table dlq.dlq_counts (
    id             bigserial primary key,
    topic          text not null,
    original_topic text not null,
    source         text not null,
    status         text not null,
    letters        bigint not null
);
create index dlq_counts_topic on dlq.dlq_counts (topic, original_topic, source, status);
create index dlq_counts_original_topic on dlq.dlq_counts (original_topic);

-- With the rights of its owner, like every function here that writes letters or counts: who settles rows need not be
-- able to read dead letters.
-- All lines of a line's kind become one, those left out that someone else is summing up.
create function deliverd.sum_up_letters(line bigint)
returns void
language sql volatile security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
    with lines as materialized (
        select c.id
        from dlq.dlq_counts k
        join dlq.dlq_counts c on c.topic = k.topic and c.original_topic = k.original_topic and c.source = k.source
            and c.status = k.status
        where k.id = sum_up_letters.line
        for update of c skip locked
    ), gone as (
        delete from dlq.dlq_counts c using lines where c.id = lines.id
        returning c.topic, c.original_topic, c.source, c.status, c.letters
    )
    insert into dlq.dlq_counts (topic, original_topic, source, status, letters)
    select g.topic, g.original_topic, g.source, g.status, sum(g.letters)
    from gone g
    group by g.topic, g.original_topic, g.source, g.status
    having sum(g.letters) <> 0
$$;

-- One line in 32 sums up its kind. By chance: kinds take turns, and those that are counted would be the same ones.
create function deliverd.count_letters()
returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    round_lines bigint[];
begin
    if tg_op = 'INSERT' then
        with added as (
            insert into dlq.dlq_counts (topic, original_topic, source, status, letters)
            select coalesce(n.source_topic, n.original_topic), n.original_topic, n.source, n.status, count(*)
            from new_rows n
            group by 1, 2, 3, 4
            returning id)
        select array_agg(a.id) into round_lines from added a where random() * 32 < 1;
    elsif tg_op = 'DELETE' then
        with added as (
            insert into dlq.dlq_counts (topic, original_topic, source, status, letters)
            select coalesce(o.source_topic, o.original_topic), o.original_topic, o.source, o.status, -count(*)
            from old_rows o
            group by 1, 2, 3, 4
            returning id)
        select array_agg(a.id) into round_lines from added a where random() * 32 < 1;
    else
        with added as (
            insert into dlq.dlq_counts (topic, original_topic, source, status, letters)
            select coalesce(c.source_topic, c.original_topic), c.original_topic, c.source, c.status, sum(c.letters)
            from (select n.source_topic, n.original_topic, n.source, n.status, 1 as letters from new_rows n
                  union all
                  select o.source_topic, o.original_topic, o.source, o.status, -1 from old_rows o) c
            group by 1, 2, 3, 4
            having sum(c.letters) <> 0
            returning id)
        select array_agg(a.id) into round_lines from added a where random() * 32 < 1;
    end if;
    if round_lines is not null then
        perform deliverd.sum_up_letters(l.id) from unnest(round_lines) as l (id);
    end if;
    return null;
end
$$;

create function deliverd.count_no_letters()
returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from dlq.dlq_counts;
    return null;
end
$$;

create trigger dlq_messages_come after insert on dlq.dlq_messages referencing new table as new_rows
    for each statement execute function deliverd.count_letters();
create trigger dlq_messages_change after update on dlq.dlq_messages
    referencing old table as old_rows new table as new_rows
    for each statement execute function deliverd.count_letters();
create trigger dlq_messages_go after delete on dlq.dlq_messages referencing old table as old_rows
    for each statement execute function deliverd.count_letters();
create trigger dlq_messages_empty after truncate on dlq.dlq_messages
    for each statement execute function deliverd.count_no_letters();

-- Stays when a letter is deleted.
create table dlq.dlq_audit (
    id          bigserial,
    at          timestamptz not null default now(),
    message_id  uuid not null,
    action      text not null,
    actor       text not null,
    status_from text,
    status_to   text,
    detail      text,
    -- One letter's trail in order. The only index: every retry inserts here.
    primary key (message_id, id)
);

-- A retry of all of a topic: whose it is, and how far it has come, oldest first.
create table deliverd.redrives (
    topic               text primary key,
    actor               text not null,
    owner               text not null,
    expires_at          timestamptz not null,
    position_created_at timestamptz,
    position_id         uuid,
    up_to_created_at    timestamptz not null,
    up_to_id            uuid not null,
    left_over           uuid[] not null default '{}',  -- begun by a process that died, before the position
    published           bigint not null default 0,
    failed              bigint not null default 0,
    in_doubt            bigint not null default 0,
    taken_over          bigint not null default 0,
    finished            boolean not null default false,
    started_at          timestamptz not null default now(),
    updated_at          timestamptz not null default now()
);

-- Which table the events of a lane are in, and what its columns are called: a letter's row goes back there.
-- A column that is null is not there.
create table deliverd.event_tables (
    lane                   text primary key,
    table_schema           text not null,
    table_name             text not null,
    id_column              text not null,
    id_type                text not null check (id_type in ('bigint', 'uuid')),
    published_column       text,
    retry_count_column     text,
    next_attempt_at_column text,
    dead_at_column         text
);

-- The letter of a row of outbox_memory that is dead since this transaction.
create function deliverd.keep_dead_memory(outbox_id bigint, worker_id text, lane text)
returns void
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
    insert into dlq.dlq_messages as m (original_topic, source, lane, outbox, outbox_row_id, error_message, error_class,
                                       producer, record_key, payload, record_value)
    select keep_dead_memory.lane, 'lane:' || keep_dead_memory.lane, keep_dead_memory.lane, 'memory', o.outbox_id::text,
           coalesce(nullif(o.last_error, ''), 'unknown error'), left(substring(o.last_error from '^([^ ]+?): '), 512),
           keep_dead_memory.worker_id, convert_to(o.target_space, 'UTF8'), to_jsonb(o.payload_md),
           convert_to(o.payload_md, 'UTF8')
    from ${schema}.outbox_memory o
    where o.outbox_id = keep_dead_memory.outbox_id and o.status = 'dead' and o.updated_at = now()
    on conflict (lane, outbox, outbox_row_id) where lane is not null do update
    set status = 'PENDING', error_message = excluded.error_message, error_class = excluded.error_class,
        producer = excluded.producer, record_key = excluded.record_key, payload = excluded.payload,
        record_value = excluded.record_value, retry_owner = null, retry_expires_at = null, updated_at = now()
$$;

create or replace function deliverd.mark_dead_by_worker(outbox_id bigint, worker_id text, error text)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if mark_dead_by_worker.worker_id is null or mark_dead_by_worker.worker_id = '' then
        raise exception 'worker_id is empty: every worker needs a name of its own' using errcode = '22023';
    end if;
    update ${schema}.outbox_memory o
    set status = 'dead', last_error = mark_dead_by_worker.error, locked_at = null, locked_by = null,
        updated_at = now()
    where o.outbox_id = mark_dead_by_worker.outbox_id and o.status = 'pending'
      and o.locked_by = mark_dead_by_worker.worker_id;
    if not found then
        return false;
    end if;
    perform deliverd.keep_dead_memory(mark_dead_by_worker.outbox_id, mark_dead_by_worker.worker_id, 'memory');
    return true;
end
$$;

-- The value of a text as JSON, or null where jsonb cannot hold it.
create function deliverd.json_or_null(value text)
returns jsonb
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    return value::jsonb;
exception
    when data_exception or program_limit_exceeded then
        return null;
end
$$;

create function deliverd.json_or_null(value bytea)
returns jsonb
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    return convert_from(value, 'UTF8')::jsonb;
exception
    when data_exception or program_limit_exceeded then
        return null;
end
$$;

-- The entries of a JSON object as record_headers has them.
create function deliverd.headers_of(entries jsonb)
returns jsonb
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(jsonb_agg(jsonb_build_object(
                        'name', e.key,
                        'value_base64',
                        translate(encode(convert_to(coalesce(e.value, 'null'), 'UTF8'), 'base64'), E'\n', ''))
                    order by e.place), '[]')
    from jsonb_each_text(case jsonb_typeof(entries) when 'object' then entries else '{}' end)
        with ordinality as e (key, value, place)
$$;

-- What was dead before there were letters. The lanes' names are not known here: those of the documentation.
insert into dlq.dlq_messages (original_topic, source, lane, outbox, outbox_row_id, error_message, error_class,
                              created_at, record_key, payload, record_value)
select 'memory', 'lane:memory', 'memory', 'memory', o.outbox_id::text,
       coalesce(nullif(o.last_error, ''), 'unknown error'), left(substring(o.last_error from '^([^ ]+?): '), 512), o.updated_at,
       convert_to(o.target_space, 'UTF8'), to_jsonb(o.payload_md), convert_to(o.payload_md, 'UTF8')
from ${schema}.outbox_memory o
where o.status = 'dead';

insert into dlq.dlq_messages (original_topic, source, lane, outbox, outbox_row_id, status, error_message, error_class,
                              created_at, in_doubt, record_key, payload, record_value)
select 'orders', 'lane:orders', 'orders', 'orders', o.id::text, 'DEAD',
       coalesce(nullif(o.last_error_detail, ''), nullif(o.last_error, ''), 'unknown error'), nullif(o.last_error, ''),
       o.updated_at, o.in_doubt, convert_to(o.idempotency_key, 'UTF8'), o.request_json,
       convert_to(coalesce(o.request_body, o.request_json::text), 'UTF8')
from ${schema}.outbox_orders o
where o.status = 'dead';

-- Of other programs' tables only this is known.
insert into dlq.dlq_messages (original_topic, source, lane, outbox, outbox_row_id, error_message, error_class,
                              created_at, record_key)
select f.lane, 'lane:' || f.lane, f.lane, 'events', f.row_id, coalesce(nullif(f.last_error, ''), 'unknown error'),
       left(substring(f.last_error from '^([^ ]+?): '), 512), f.dead_at, convert_to(f.aggregate_id, 'UTF8')
from deliverd.event_failures f
where f.dead_at is not null;

-- Where the table `outbox` is deliverd's own.
do $$
begin
    if not exists (select from pg_attribute where attrelid = $name$${schema}.outbox$name$::regclass
                   and attname = 'dead_at' and not attisdropped) then
        return;
    end if;
    insert into dlq.dlq_messages (original_topic, source, lane, outbox, outbox_row_id, error_message, error_class,
                                  created_at, record_key, record_headers, payload, record_value)
    select 'events', 'lane:events', 'events', 'events', o.id::text, coalesce(nullif(o.last_error, ''), 'unknown error'),
           left(substring(o.last_error from '^([^ ]+?): '), 512), o.dead_at, convert_to(o.aggregate_id, 'UTF8'),
           deliverd.headers_of(o.metadata), o.payload, convert_to(o.payload::text, 'UTF8')
    from ${schema}.outbox o
    where o.dead_at is not null and not o.published
    on conflict (lane, outbox, outbox_row_id) where lane is not null do nothing;
    insert into deliverd.event_tables
    select 'events', n.nspname, 'outbox', 'id', 'bigint', 'published', 'retry_count', 'next_attempt_at', 'dead_at'
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.oid = $name$${schema}.outbox$name$::regclass;
end
$$;
