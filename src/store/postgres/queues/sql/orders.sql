-- The order outbox: one statement per batch. {schema} holds the outbox tables. A worker's parameter is $1, ids are $2.

-- What an audit line says of a row.
-- part: moved
o.id, o.idempotency_key, o.trace_id, o.retry_count, o.last_error, o.broker_order_id

-- A line in the audit for each row of `moved`.
-- part: trail
insert into {schema}.outbox_audit (outbox, outbox_id, reason, status_from, status_to, retry_count, last_error,
        idempotency_key, trace_id, broker_order_id, worker, actor)
    select 'orders', m.id, m.reason, m.status_from, m.status_to, m.retry_count, m.last_error, m.idempotency_key,
        m.trace_id, m.broker_order_id, $1::text, $1::text
    from moved m

-- Parameters: worker, limit.
-- name: requeue_orders
with due as materialized (
    select p.id
    from {schema}.outbox_orders p
    where p.status = 'failed' and p.next_attempt_at <= now()
    order by p.next_attempt_at, p.id
    limit $2::int
    for no key update skip locked
), moved as (
    update {schema}.outbox_orders o
    set status = 'queued', updated_at = now()
    from due
    where o.id = due.id
    returning {moved}, 'outbox_requeue' as reason, 'failed' as status_from, 'queued' as status_to
)
{trail}

-- Parameters: worker, limit, and the position behind which to claim: due time, id.
-- name: claim_orders
with picked as materialized (
    select p.id
    from {schema}.outbox_orders p
    where p.status = 'queued' and p.next_attempt_at <= now()
        and (p.next_attempt_at, p.id) > ($3::timestamptz, $4::bigint)
    order by p.next_attempt_at, p.id
    limit $2::int
    for no key update skip locked
), moved as (
    update {schema}.outbox_orders o
    set status = 'sending', locked_by = $1::text, updated_at = now()
    from picked
    where o.id = picked.id
    returning {moved}, coalesce(o.request_body, o.request_json::text) as request, o.created_at, o.next_attempt_at,
        'outbox_claim' as reason, 'queued' as status_from, 'sending' as status_to
), trail as (
    {trail}
)
select m.id, m.idempotency_key, m.request, m.trace_id, m.retry_count, m.created_at, m.next_attempt_at, now()
from moved m
order by m.next_attempt_at, m.id

-- The rows among the ids that this worker holds, except those that someone has locked at this moment. The lock is the
-- one that an update takes anyway, so that it never blocks a foreign key that points here. Each id has a query of its
-- own: in a plain join a planner without statistics compares every id with everything that is being sent.
-- part: held
with held as materialized (
    select i.id
    from unnest($2::bigint[]) as i (id)
    cross join lateral (
        select 1
        from {schema}.outbox_orders o
        where o.id = i.id and o.status = 'sending' and o.locked_by = $1::text
        for no key update of o skip locked
    ) as mine
)

-- Parameters: worker, ids, kinds (SettleKind), failures before, delays in seconds, reasons, codes, details, ids of the
-- broker, result digests, results, the ledger's time to live in seconds, 1 if in doubt. Answers the ids of those that
-- applied. The ledger's row may have been purged meanwhile.
-- name: settle_orders
with held as materialized (
    select i.*
    from unnest($2::bigint[], $3::int[], $4::int[], $5::float8[], $6::text[], $7::text[], $8::text[], $9::text[],
            $10::text[], $11::text[], $13::int[])
        as i (id, kind, failures, delay_seconds, reason, code, detail, broker_order_id, result_digest, result_json,
            in_doubt)
    cross join lateral (
        select 1
        from {schema}.outbox_orders o
        where o.id = i.id and o.status = 'sending' and o.locked_by = $1::text and o.retry_count = i.failures
        for no key update of o skip locked
    ) as mine
), done as (
    update {schema}.outbox_orders o
    set status = case h.kind when 2 then 'failed' when 3 then 'dead' else 'sent' end,
        retry_count = o.retry_count + case h.kind when 2 then 1 else 0 end,
        next_attempt_at = case h.kind when 2 then now() + h.delay_seconds * interval '1 second'
                                      else o.next_attempt_at end,
        last_error = h.code, last_error_detail = h.detail, locked_by = null, updated_at = now(),
        broker_order_id = coalesce(h.broker_order_id, o.broker_order_id),
        in_doubt = h.kind >= 2 and (o.in_doubt or h.in_doubt = 1)
    from held h
    where o.id = h.id
    returning {moved}, o.status, o.request_digest, h.kind, h.reason, h.detail, h.result_digest, h.result_json
), ledger as (
    insert into {schema}.idempo_ledger (idempotency_key, request_digest, result_digest, result_json, expires_at)
    select d.idempotency_key, d.request_digest, d.result_digest, d.result_json,
        now() + $12::float8 * interval '1 second'
    from done d
    where d.kind < 2
    on conflict (idempotency_key) do update
    set result_digest = excluded.result_digest, result_json = excluded.result_json, expires_at = excluded.expires_at
), trail as (
    insert into {schema}.outbox_audit (outbox, outbox_id, reason, status_from, status_to, retry_count, last_error,
        detail, idempotency_key, trace_id, broker_order_id, worker, actor)
    select 'orders', d.id, d.reason, 'sending', d.status, d.retry_count, d.last_error, d.detail, d.idempotency_key,
        d.trace_id, d.broker_order_id, $1::text, $1::text
    from done d
)
select id from done

-- Parameter: ids.
-- name: order_states
select id, status, retry_count, locked_by, last_error_detail
from {schema}.outbox_orders
where id = any ($1::bigint[])

-- Answers an id with true if it was renewed, and with false if it was lost when the statement began. A row that changes
-- hands meanwhile is not answered, nor is a locked one.
-- name: renew_orders
{held}, renewed as (
    update {schema}.outbox_orders o
    set updated_at = now()
    from held h
    where o.id = h.id
    returning o.id
)
select id, true from renewed
union all
select i.id, false
from unnest($2::bigint[]) as i (id)
left join lateral (
    select o.id
    from {schema}.outbox_orders o
    where o.id = i.id and o.status = 'sending' and o.locked_by = $1::text
    offset 0
) as mine on true
where mine.id is null

-- name: release_orders
{held}, moved as (
    update {schema}.outbox_orders o
    set status = 'queued', locked_by = null, updated_at = now()
    from held h
    where o.id = h.id
    returning {moved}, 'outbox_release' as reason, 'sending' as status_from, 'queued' as status_to
), trail as (
    {trail}
)
select id from moved

-- Nobody knows whether the worker sent it before it vanished. Parameters: worker, seconds for which it was stuck.
-- name: rescue_orders
with stuck as materialized (
    select p.id
    from {schema}.outbox_orders p
    where p.status = 'sending' and p.updated_at < now() - $2::float8 * interval '1 second'
    for no key update skip locked
), moved as (
    update {schema}.outbox_orders o
    set status = 'queued', locked_by = null, in_doubt = true, updated_at = now()
    from stuck
    where o.id = stuck.id
    returning {moved}, 'outbox_stuck' as reason, 'sending' as status_from, 'queued' as status_to
), trail as (
    {trail}
)
select id from moved

-- Parameters: worker, ids, reasons, details, counts.
-- name: audit_orders
insert into {schema}.outbox_audit (outbox, outbox_id, reason, detail, retry_count, idempotency_key, trace_id, worker,
    actor)
select 'orders', i.id, i.reason, i.detail, i.retry_count, o.idempotency_key, o.trace_id, $1::text, $1::text
from unnest($2::bigint[], $3::text[], $4::text[], $5::int[]) as i (id, reason, detail, retry_count)
left join {schema}.outbox_orders o on o.id = i.id

-- The first in due order stands for all orders that are queued, or that wait for their retry: finding the very oldest
-- would mean reading the whole backlog. Orders that are being sent are few. The age starts at 1970 (kEarliestMicros).
-- name: order_lag
select date_part('epoch', now() - greatest(oldest.at, timestamptz '1970-01-01 00:00:00Z'))
from (
    select min(created_at) as at
    from (
        (select created_at from {schema}.outbox_orders where status = 'queued' and next_attempt_at <= now()
         order by next_attempt_at, id limit 1)
        union all
        (select created_at from {schema}.outbox_orders where status = 'failed' and next_attempt_at <= now()
         order by next_attempt_at, id limit 1)
        union all
        select created_at from {schema}.outbox_orders where status = 'sending'
    ) as due
) as oldest
where oldest.at is not null

-- name: order_counts
select status, count(*) from {schema}.outbox_orders group by status

-- Posts of one key wait for its row; the keys are sorted, so that two batches cannot deadlock. The insert can return
-- only columns of the table, and the actor is not one: it is looked up by key.
-- Parameters: keys (sorted, each once), requests, digests, traces, actors, the ledger's time to live in seconds.
-- name: accept_orders
with fresh as (
    insert into {schema}.outbox_orders (idempotency_key, request_json, request_body, request_digest, trace_id, status,
        next_attempt_at)
    select i.key, i.request::jsonb, i.request, i.digest, i.trace_id, 'queued', now()
    from unnest($1::text[], $2::text[], $3::text[], $4::text[]) as i (key, request, digest, trace_id)
    on conflict (idempotency_key) do nothing
    returning id, idempotency_key, request_digest, trace_id, created_at, updated_at
), ledger as (
    insert into {schema}.idempo_ledger (idempotency_key, request_digest, expires_at)
    select f.idempotency_key, f.request_digest, now() + $6::float8 * interval '1 second'
    from fresh f
    on conflict (idempotency_key) do update
    set request_digest = excluded.request_digest, result_digest = null, result_json = null,
        expires_at = excluded.expires_at
), trail as (
    insert into {schema}.outbox_audit (outbox, outbox_id, reason, status_to, retry_count, idempotency_key, trace_id,
        actor)
    select 'orders', f.id, 'order_accepted', 'queued', 0, f.idempotency_key, f.trace_id,
        (select jsonb_object($1::text[], $5::text[])) ->> f.idempotency_key
    from fresh f
)
select id, idempotency_key, created_at, updated_at from fresh

-- part: order
o.id, o.idempotency_key, coalesce(o.request_body, o.request_json::text), o.request_digest, o.trace_id, o.status,
    o.retry_count, o.next_attempt_at, o.last_error, o.last_error_detail, o.in_doubt, o.broker_order_id, o.created_at,
    o.updated_at

-- Parameter: keys. Answers the orders that exist, with their ledger.
-- name: find_orders
select {order}, l.result_digest, l.result_json
from {schema}.outbox_orders o
left join {schema}.idempo_ledger l on l.idempotency_key = o.idempotency_key
where o.idempotency_key = any ($1::text[])

-- The newest lines, newest first. Parameters: key, limit.
-- name: order_audit
select a.at, a.reason, a.status_from, a.status_to, a.retry_count, a.last_error, a.detail, a.broker_order_id, a.worker,
    a.actor
from {schema}.outbox_audit a
where a.outbox = 'orders'
    and a.outbox_id = (select id from {schema}.outbox_orders where idempotency_key = $1::text)
order by a.audit_id desc
limit $2::int

-- Without the ledger. Parameters: status or null, below this id or null, limit.
-- name: list_orders
select {order}, null::text, null::text
from {schema}.outbox_orders o
where ($1::text is null or o.status = $1::text) and ($2::bigint is null or o.id < $2::bigint)
order by o.id desc
limit $3::int

-- The same for dead orders, by an index of their own, because they are few and far between.
-- name: list_dead_orders
select {order}, null::text, null::text
from {schema}.outbox_orders o
where o.status = 'dead' and ($1::text is null or o.status = $1::text) and ($2::bigint is null or o.id < $2::bigint)
order by o.id desc
limit $3::int
