-- The lease protocol: table outbox_memory, its audit, and the functions of schema deliverd.
-- docs/lease-protocol.md is the contract. ${schema} is the quoted schema of the outbox tables.

-- Only what is absent: even `create schema if not exists` wants a privilege on the database, which a user whose
-- schemas were made for it may lack.
do $$
begin
    if to_regnamespace('deliverd') is null then
        create schema deliverd;
    end if;
    if to_regnamespace($name$${schema}$name$) is null then
        create schema ${schema};
    end if;
end
$$;

create table if not exists deliverd.migrations (
    version       int primary key,
    name          text not null,
    checksum      text not null,
    outbox_schema text not null,
    applied_at    timestamptz not null default now()
);

-- A claim writes a second version of every row it takes, in one transaction, and changes no indexed column.
-- Half-filled pages keep those versions beside the first (HOT): no index is touched by a claim.
create table ${schema}.outbox_memory (
    outbox_id       bigserial primary key,
    item_id         bigint,
    target_space    text not null,
    payload_md      text not null,
    payload_sha     text not null,
    status          text not null default 'pending' check (status in ('pending', 'sent', 'dead')),
    retry_count     int not null default 0,
    next_attempt_at timestamptz not null default now(),
    locked_at       timestamptz,
    locked_by       text,
    last_error      text,
    created_at      timestamptz not null default now(),
    updated_at      timestamptz not null default now()
) with (fillfactor = 50);

-- The claim's ORDER BY, and only the open rows: it stays small however many rows are settled.
create index outbox_memory_claim on ${schema}.outbox_memory (next_attempt_at, outbox_id)
    where status = 'pending';

-- Every settle as sent inserts here, so the key is eight bytes instead of a space and 64 hex digits; readers
-- compare the columns themselves as well. Space and payload both count, for one payload may go to many spaces.
-- outbox_id last: the first of many equal rows is one step away.
create index outbox_memory_dedup on ${schema}.outbox_memory
    (hashtextextended(payload_sha, hashtextextended(target_space, 0)), outbox_id)
    where status = 'sent';

create table ${schema}.outbox_audit (
    audit_id        bigserial,
    outbox          text not null,
    outbox_id       bigint not null,
    reason          text not null,
    status_from     text,
    status_to       text,
    retry_count     int,
    last_error      text,
    idempotency_key text,
    trace_id        text,
    broker_order_id text,
    worker          text,
    actor           text,
    at              timestamptz not null default now(),
    -- One row's trail in order. The only index: every settle inserts here.
    primary key (outbox_id, audit_id)
);

create function deliverd.enqueue_memory(
    target_space text, payload_md text, item_id bigint default null, max_payload_bytes bigint default 1048576)
returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    new_id bigint;
begin
    if enqueue_memory.target_space is null or enqueue_memory.target_space = '' then
        raise exception 'target_space is empty: name the space the payload goes to' using errcode = '22023';
    end if;
    if enqueue_memory.payload_md is null then
        raise exception 'payload_md is null: a payload is required' using errcode = '22023';
    end if;
    if octet_length(convert_to(enqueue_memory.payload_md, 'UTF8')) > coalesce(enqueue_memory.max_payload_bytes, 1048576) then
        raise exception 'payload_md has % bytes, more than the % allowed: shorten it or raise max_payload_bytes',
            octet_length(convert_to(enqueue_memory.payload_md, 'UTF8')),
            coalesce(enqueue_memory.max_payload_bytes, 1048576) using errcode = '22023';
    end if;
    insert into ${schema}.outbox_memory as o (item_id, target_space, payload_md, payload_sha)
    values (enqueue_memory.item_id, enqueue_memory.target_space, enqueue_memory.payload_md,
            encode(sha256(convert_to(enqueue_memory.payload_md, 'UTF8')), 'hex'))
    returning o.outbox_id into new_id;
    return new_id;
end
$$;

-- The planner settings keep the claim on its index also where statistics are old or missing; the wrong plan
-- sorts the whole backlog on every call.
create function deliverd.claim_outbox(
    worker_id text, "limit" integer default 10, lease_seconds double precision default 60)
returns setof ${schema}.outbox_memory
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
    if claim_outbox.worker_id is null or claim_outbox.worker_id = '' then
        raise exception 'worker_id is empty: every worker needs a name of its own' using errcode = '22023';
    end if;
    if claim_outbox."limit" is null or claim_outbox."limit" < 1 then
        raise exception 'limit is %: at least 1 row must be asked for', claim_outbox."limit" using errcode = '22023';
    end if;
    if claim_outbox.lease_seconds is null
       or not (claim_outbox.lease_seconds >= 0 and claim_outbox.lease_seconds <= 1e9) then
        raise exception 'lease_seconds is %: between 0 and 1000000000 seconds are possible',
            claim_outbox.lease_seconds using errcode = '22023';
    end if;
    return query
    with picked as materialized (
        select p.outbox_id
        from ${schema}.outbox_memory p
        where p.status = 'pending'
          and p.next_attempt_at <= now()
          and (p.locked_at is null or p.locked_at < now() - claim_outbox.lease_seconds * interval '1 second')
        order by p.next_attempt_at, p.outbox_id
        limit claim_outbox."limit"
        for update skip locked
    ), taken as (
        update ${schema}.outbox_memory o
        set locked_at = now(), locked_by = claim_outbox.worker_id, updated_at = now()
        from picked
        where o.outbox_id = picked.outbox_id
        returning o.*
    )
    select * from taken t order by t.next_attempt_at, t.outbox_id;
end
$$;

create function deliverd.ack_sent(outbox_id bigint, worker_id text, memory_id text default null)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if ack_sent.worker_id is null or ack_sent.worker_id = '' then
        raise exception 'worker_id is empty: every worker needs a name of its own' using errcode = '22023';
    end if;
    update ${schema}.outbox_memory o
    set status = 'sent', locked_at = null, locked_by = null, updated_at = now(),
        last_error = 'memory_id=' || ack_sent.memory_id
    where o.outbox_id = ack_sent.outbox_id and o.status = 'pending' and o.locked_by = ack_sent.worker_id;
    return found;
end
$$;

create function deliverd.fail_retry(outbox_id bigint, worker_id text, error text, next_attempt_at timestamptz)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if fail_retry.worker_id is null or fail_retry.worker_id = '' then
        raise exception 'worker_id is empty: every worker needs a name of its own' using errcode = '22023';
    end if;
    if fail_retry.next_attempt_at is null then
        raise exception 'next_attempt_at is null: the worker says when to try again' using errcode = '22023';
    end if;
    if not isfinite(fail_retry.next_attempt_at) then
        raise exception 'next_attempt_at is %: name a moment, or use mark_dead_by_worker to give up',
            fail_retry.next_attempt_at using errcode = '22023';
    end if;
    update ${schema}.outbox_memory o
    set retry_count = o.retry_count + 1, next_attempt_at = fail_retry.next_attempt_at,
        last_error = fail_retry.error, locked_at = null, locked_by = null, updated_at = now()
    where o.outbox_id = fail_retry.outbox_id and o.status = 'pending' and o.locked_by = fail_retry.worker_id;
    return found;
end
$$;

create function deliverd.mark_dead_by_worker(outbox_id bigint, worker_id text, error text)
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
    return found;
end
$$;

create function deliverd.renew_lease(outbox_id bigint, worker_id text)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if renew_lease.worker_id is null or renew_lease.worker_id = '' then
        raise exception 'worker_id is empty: every worker needs a name of its own' using errcode = '22023';
    end if;
    update ${schema}.outbox_memory o
    set locked_at = now(), updated_at = now()
    where o.outbox_id = renew_lease.outbox_id and o.status = 'pending' and o.locked_by = renew_lease.worker_id;
    return found;
end
$$;

-- Rows are locked in the order of their ids, so that two batches over the same rows wait and never deadlock.
create function deliverd.renew_lease_batch(outbox_ids bigint[], worker_id text)
returns integer
language plpgsql volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    renewed integer;
begin
    if renew_lease_batch.worker_id is null or renew_lease_batch.worker_id = '' then
        raise exception 'worker_id is empty: every worker needs a name of its own' using errcode = '22023';
    end if;
    with held as materialized (
        select h.outbox_id
        from ${schema}.outbox_memory h
        where h.outbox_id = any (renew_lease_batch.outbox_ids)
          and h.status = 'pending' and h.locked_by = renew_lease_batch.worker_id
        order by h.outbox_id
        for update
    )
    update ${schema}.outbox_memory o
    set locked_at = now(), updated_at = now()
    from held
    where o.outbox_id = held.outbox_id;
    get diagnostics renewed = row_count;
    return renewed;
end
$$;

-- The first row that was sent with this content, with what its receiver called it; no row when there is none.
create function deliverd.check_dedup(target_space text, payload_sha text)
returns table (outbox_id bigint, memory_id text)
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select o.outbox_id,
           case when o.last_error like 'memory\_id=%' then substr(o.last_error, length('memory_id=') + 1) end
    from ${schema}.outbox_memory o
    where o.status = 'sent'
      and hashtextextended(o.payload_sha, hashtextextended(o.target_space, 0))
          = hashtextextended(check_dedup.payload_sha, hashtextextended(check_dedup.target_space, 0))
      and o.payload_sha = check_dedup.payload_sha
      and o.target_space = check_dedup.target_space
    order by o.outbox_id
    limit 1
$$;

-- One row as it is now, whoever holds it: what a worker looks at after a settle answered false.
create function deliverd.show_memory(outbox_id bigint)
returns setof ${schema}.outbox_memory
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select o.* from ${schema}.outbox_memory o where o.outbox_id = show_memory.outbox_id
$$;
