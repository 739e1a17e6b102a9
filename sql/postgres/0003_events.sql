-- The event outbox: the table applications write into in their own transaction, and who relays which part of it.
-- docs/events.md is the contract. ${schema} is the quoted schema of the outbox tables.

-- `outbox` is a name that other programs use as well. A table of that name that is already there is left as it is:
-- a lane relays it with `table:` and `columns:`.
do $$
begin
    if to_regclass($name$${schema}.outbox$name$) is not null then
        raise notice 'there is a table % already: it is left as it is', $name$${schema}.outbox$name$;
        return;
    end if;

    create table ${schema}.outbox (
        id              bigserial primary key,
        aggregate_id    varchar(255) not null,
        event_type      varchar(255) not null,
        payload         jsonb not null,
        created_at      timestamptz not null default now(),
        published_at    timestamptz,
        published       boolean not null default false,
        event_id        uuid not null default gen_random_uuid(),  -- what consumers deduplicate by
        metadata        jsonb not null default '{}',
        retry_count     int not null default 0,
        next_attempt_at timestamptz,  -- null: at once
        last_error      text,
        dead_at         timestamptz
    );

    -- What is still to be sent, in the order of the reading. Small however many rows were published.
    create index outbox_open on ${schema}.outbox (id) where not published and dead_at is null;
    -- The rest of an aggregate whose first event had to wait.
    create index outbox_open_aggregate on ${schema}.outbox (aggregate_id, id)
        where not published and dead_at is null;
    -- What failed and waits: by aggregate, because what comes after it waits as well, and by time. The last condition
    -- always holds; it keeps the planner from looking aggregates up in the index by time.
    create index outbox_waiting_aggregate on ${schema}.outbox (aggregate_id, id)
        where retry_count > 0 and not published and dead_at is null;
    create index outbox_waiting_due on ${schema}.outbox (coalesce(next_attempt_at, '-infinity'::timestamptz), id)
        where retry_count > 0 and not published and dead_at is null
            and coalesce(next_attempt_at, '-infinity'::timestamptz) is not null;
    -- What was given up, and what `on_dead: block` keeps behind it.
    create index outbox_dead on ${schema}.outbox (aggregate_id, id) where dead_at is not null;
end
$$;

-- The parts of a lane's table: an aggregate belongs to one of them, and one relay at a time sends what is in it.
create table deliverd.shards (
    lane       text not null,
    shard      int not null,
    owner      text,
    token      bigint not null,  -- one more with every change of owner: a former owner's settle is recognised by it
    expires_at timestamptz not null,
    primary key (lane, shard)
) with (fillfactor = 50);

-- The relays of a lane, those without a part included: from their number follows each one's share.
create table deliverd.relays (
    lane       text not null,
    owner      text not null,
    expires_at timestamptz not null,
    asleep     boolean not null default false,  -- wants to be woken by a notification
    primary key (lane, owner)
) with (fillfactor = 50);

-- How rows of a table without columns of its own for it (`columns: debezium`) failed; one line a failed row.
create table deliverd.event_failures (
    lane            text not null,
    row_id          text not null,
    aggregate_id    text not null,
    retry_count     int not null,
    next_attempt_at timestamptz,
    last_error      text,
    dead_at         timestamptz,
    primary key (lane, row_id)
);
create index event_failures_aggregate on deliverd.event_failures (lane, aggregate_id);
create index event_failures_due on deliverd.event_failures
    (lane, coalesce(next_attempt_at, '-infinity'::timestamptz)) where dead_at is null;

-- One notification a transaction at most, and only while a relay sleeps: a commit that notifies waits for all others
-- that do. `set deliverd.notify = off` (session, role or database) does without; then the relay's next look finds it.
create function deliverd.wake_relays()
returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(current_setting('deliverd.notify', true), '') <> 'off'
       and exists (select from deliverd.relays where asleep and expires_at > now()) then
        perform pg_notify('deliverd_outbox', '');
    end if;
    return null;
end
$$;

do $$
begin
    if exists (select from pg_attribute where attrelid = $name$${schema}.outbox$name$::regclass
               and attname = 'dead_at' and not attisdropped) then
        create trigger deliverd_wake_relays after insert on ${schema}.outbox
            for each statement execute function deliverd.wake_relays();
    end if;
end
$$;

create function deliverd.add_event(
    aggregate_id text, event_type text, payload jsonb, metadata jsonb default '{}')
returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(add_event.aggregate_id, '') = '' then
        raise exception 'aggregate_id must not be empty' using errcode = 'invalid_parameter_value';
    end if;
    if coalesce(add_event.event_type, '') = '' then
        raise exception 'event_type must not be empty' using errcode = 'invalid_parameter_value';
    end if;
    if add_event.payload is null then
        raise exception 'payload must not be null' using errcode = 'invalid_parameter_value';
    end if;
    if jsonb_typeof(coalesce(add_event.metadata, '{}')) <> 'object' then
        raise exception 'metadata must be a JSON object' using errcode = 'invalid_parameter_value';
    end if;
    insert into ${schema}.outbox (aggregate_id, event_type, payload, metadata)
    values (add_event.aggregate_id, add_event.event_type, add_event.payload, coalesce(add_event.metadata, '{}'));
    -- Not RETURNING, which needs SELECT: who may write events need not be able to read them.
    return coalesce(currval(pg_get_serial_sequence($name$${schema}.outbox$name$, 'id')), lastval());
end
$$;

-- The first range partition of a table that only has rows published longer ago than that, behind which there are others;
-- no row when there is none. Locks nothing. An empty partition is not it: it may be meant for what is to come.
create function deliverd.published_partition(
    parent regclass, id_column name, published_column name, published_at_column name, age interval)
returns table (child regclass, rows bigint)
language plpgsql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = on
as $$
declare
    last_id bigint;
    young boolean;
    followed boolean;
begin
    for child in
        select c.oid::regclass
        from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = parent and c.relkind = 'r' and pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'
        order by c.oid
    loop
        execute format('select exists (select from %s where (%I and %I < now() - $1) is not true)',
                       child, published_column, published_at_column)
            into young using age;
        continue when young;
        execute format('select max(%I), count(*) from %s', id_column, child) into last_id, rows;
        continue when rows = 0;
        execute format('select exists (select from %s where %I > $1)', parent, id_column)
            into followed using last_id;
        continue when not followed;
        return next;
        return;
    end loop;
end
$$;

-- Drops a partition that published_partition() answered; false when someone is in the way or a row was added meanwhile.
-- Writers wait for as long as this does: the caller sets lock_timeout and statement_timeout to short times.
create function deliverd.drop_published_partition(parent regclass, child regclass, published_column name)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    open_rows boolean;
begin
    -- The table before its part, as everyone who writes does it.
    execute format('lock table only %s in access exclusive mode', parent);
    execute format('lock table %s in access exclusive mode', child);
    execute format('select exists (select from %s where %I is not true)', child, published_column) into open_rows;
    if open_rows then
        return false;
    end if;
    execute format('drop table %s', child);
    return true;
exception
    when lock_not_available or query_canceled or insufficient_privilege or dependent_objects_still_exist
         or deadlock_detected then
        return false;
end
$$;

-- For programs that publish by themselves and for people; what a relay does is elsewhere. PL/pgSQL throughout: where
-- `outbox` is another program's table, its missing columns show when a function is called, not when it is made.
-- deliverd.event instead of the table's own type: nothing here keeps the table from being replaced by a partitioned one.
create type deliverd.event as (
    id              bigint,
    aggregate_id    text,
    event_type      text,
    payload         jsonb,
    created_at      timestamptz,
    published_at    timestamptz,
    published       boolean,
    event_id        uuid,
    metadata        jsonb,
    retry_count     int,
    next_attempt_at timestamptz,
    last_error      text,
    dead_at         timestamptz
);

-- Open events, oldest first.
create function deliverd.fetch_unpublished("limit" int default 100)
returns setof deliverd.event
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if fetch_unpublished."limit" is null or fetch_unpublished."limit" < 1 then
        raise exception 'limit is %: at least 1 row must be asked for', fetch_unpublished."limit" using errcode = '22023';
    end if;
    return query
        select o.id, o.aggregate_id::text, o.event_type::text, o.payload, o.created_at, o.published_at, o.published,
               o.event_id, o.metadata, o.retry_count, o.next_attempt_at, o.last_error, o.dead_at
        from ${schema}.outbox o where not o.published and o.dead_at is null
        order by o.id limit fetch_unpublished."limit";
end
$$;

-- All events of one aggregate, published ones too, oldest first.
create function deliverd.events_by_aggregate(aggregate_id text, "limit" int default 100)
returns setof deliverd.event
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if events_by_aggregate."limit" is null or events_by_aggregate."limit" < 1 then
        raise exception 'limit is %: at least 1 row must be asked for', events_by_aggregate."limit"
            using errcode = '22023';
    end if;
    return query
        select o.id, o.aggregate_id::text, o.event_type::text, o.payload, o.created_at, o.published_at, o.published,
               o.event_id, o.metadata, o.retry_count, o.next_attempt_at, o.last_error, o.dead_at
        from ${schema}.outbox o where o.aggregate_id = events_by_aggregate.aggregate_id
        order by o.id limit events_by_aggregate."limit";
end
$$;

create function deliverd.show_event(id bigint)
returns setof deliverd.event
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select o.id, o.aggregate_id::text, o.event_type::text, o.payload, o.created_at, o.published_at, o.published,
               o.event_id, o.metadata, o.retry_count, o.next_attempt_at, o.last_error, o.dead_at
        from ${schema}.outbox o where o.id = show_event.id;
end
$$;

-- False: unknown, or published already. A dead one counts as published from here on, and keeps nothing waiting behind it.
create function deliverd.mark_published(id bigint)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    update ${schema}.outbox o set published = true, published_at = now(), dead_at = null
    where o.id = mark_published.id and not o.published;
    return found;
end
$$;

-- One failed attempt of an open event; answers the count, null when it is unknown or not open. A time for the next
-- attempt that a relay wrote stays.
create function deliverd.increment_retry_count(id bigint, error text default null)
returns int
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    counted int;
begin
    update ${schema}.outbox o set retry_count = o.retry_count + 1,
        last_error = coalesce(nullif(increment_retry_count.error, ''), o.last_error),
        next_attempt_at = coalesce(o.next_attempt_at, now())
    where o.id = increment_retry_count.id and not o.published and o.dead_at is null
    returning o.retry_count into counted;
    return counted;
end
$$;

-- At most `limit` events that were published longer ago than that; rows that someone has locked are left for the next
-- time. Call it until it answers less than the limit.
create function deliverd.delete_published(older_than_seconds double precision default 604800, "limit" int default 1000)
returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    deleted bigint;
begin
    if not coalesce(delete_published.older_than_seconds between 0 and 1e9, false) then
        raise exception 'older_than_seconds is %: between 0 and 1000000000 seconds are possible',
            delete_published.older_than_seconds using errcode = '22023';
    end if;
    if delete_published."limit" is null or delete_published."limit" < 1 then
        raise exception 'limit is %: at least 1 row must be asked for', delete_published."limit" using errcode = '22023';
    end if;
    delete from ${schema}.outbox o where o.id in (
        select p.id from ${schema}.outbox p
        where p.published and coalesce(p.published_at, p.created_at)
                              < now() - make_interval(secs => delete_published.older_than_seconds)
        order by p.id limit delete_published."limit" for update skip locked);
    get diagnostics deleted = row_count;
    return deleted;
end
$$;

-- Reads the whole table.
create function deliverd.outbox_stats(
    out total bigint, out unpublished bigint, out published bigint, out dead bigint,
    out oldest_unpublished_age_seconds double precision, out max_retries int)
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $$
declare
    oldest timestamptz;
begin
    select count(*), count(*) filter (where not o.published and o.dead_at is null), count(*) filter (where o.published),
           count(*) filter (where not o.published and o.dead_at is not null),
           min(o.created_at) filter (where not o.published and o.dead_at is null), coalesce(max(o.retry_count), 0)
    into total, unpublished, published, dead, oldest, max_retries
    from ${schema}.outbox o;
    if oldest is not null then
        oldest_unpublished_age_seconds := greatest(extract(epoch from clock_timestamp() - oldest), 0);
    end if;
end
$$;
