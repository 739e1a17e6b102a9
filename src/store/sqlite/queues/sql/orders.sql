-- Order intake and the order outbox.

-- part: now
strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
-- part: order
o.id, o.idempotency_key, o.request_json, o.request_digest, o.trace_id, o.status, o.retry_count, o.next_attempt_at,
    o.last_error, o.last_error_detail, o.in_doubt, o.broker_order_id, o.created_at, o.updated_at
-- part: held
where id = ?1 and status = 'sending' and locked_by = ?2 and retry_count = ?3

-- 1 key, 2 request, 3 digest, 4 trace id. Answers nothing when the key is known.
-- name: accept_order
insert into outbox_orders (idempotency_key, request_json, request_digest, status, next_attempt_at, created_at,
    updated_at, trace_id)
values (?1, ?2, ?3, 'queued', {now}, {now}, {now}, nullif(?4, ''))
on conflict (idempotency_key) do nothing
returning id, status, created_at, updated_at

-- 1 order id, 2 the time to live as a modifier, 3 digest and 4 text of the broker's answer, or NULL.
-- name: write_ledger
insert into idempo_ledger (idempotency_key, request_digest, expires_at, result_digest, result_json)
select idempotency_key, request_digest, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?2), ?3, ?4
from outbox_orders
where id = ?1
on conflict (idempotency_key) do update
set request_digest = excluded.request_digest, expires_at = excluded.expires_at,
    result_digest = excluded.result_digest, result_json = excluded.result_json

-- 1 ids as a JSON array, 2 reason, 3 status before or NULL, 4 worker or NULL, 5 actor; the rest from the rows as they
-- are now. The detail is of the failure that the line reports, not of an earlier one.
-- name: audit_orders
insert into outbox_audit (outbox, outbox_id, reason, status_from, status_to, retry_count, last_error, detail,
    idempotency_key, trace_id, broker_order_id, worker, actor)
select 'orders', o.id, ?2, ?3, o.status, o.retry_count, o.last_error,
    case when o.status in ('failed', 'dead') then o.last_error_detail end,
    o.idempotency_key, o.trace_id, o.broker_order_id, ?4, ?5
from json_each(?1) as given
cross join outbox_orders o on o.id = given.value

-- 1 key.
-- name: find_order
select {order}, l.result_digest, l.result_json
from outbox_orders o
left join idempo_ledger l on l.idempotency_key = o.idempotency_key
where o.idempotency_key = ?1

-- 1 order id, 2 limit. Newest first.
-- name: order_audit
select at, reason, status_from, status_to, retry_count, last_error, detail, broker_order_id, worker, actor
from outbox_audit indexed by outbox_audit_trail
where outbox_id = ?1 and outbox = 'orders'
order by audit_id desc
limit ?2

-- 1 status or NULL, 2 below this id, 3 limit.
-- name: list_orders
select {order}
from outbox_orders o
where (?1 is null or o.status = ?1) and o.id < ?2
order by o.id desc
limit ?3

-- The same for dead orders, by an index of their own, because they are few and far between.
-- name: list_dead_orders
select {order}
from outbox_orders o indexed by outbox_orders_dead
where o.status = 'dead' and ?1 = 'dead' and o.id < ?2
order by o.id desc
limit ?3

-- 1 limit.
-- name: requeue_orders
update outbox_orders
set status = 'queued', updated_at = {now}
where id in (
    select id
    from outbox_orders indexed by outbox_orders_failed
    where status = 'failed' and next_attempt_at <= {now}
    order by next_attempt_at, id
    limit ?1
)
returning id

-- 1 worker, 2 limit, 3 and 4 the due time and the id behind which to claim ('' and 0: from the beginning). Answers rows
-- in any order.
-- name: claim_orders
update outbox_orders
set status = 'sending', locked_by = ?1, updated_at = {now}
where id in (
    select id
    from outbox_orders indexed by outbox_orders_claim
    where status = 'queued'
        and next_attempt_at <= {now}
        and (next_attempt_at, id) > (?3, ?4)
    order by next_attempt_at, id
    limit ?2
)
returning id, idempotency_key, request_json, trace_id, retry_count, next_attempt_at, created_at, updated_at

-- 1 id, 2 worker, 3 failures when it was claimed, 4 code or NULL, 5 the broker's id of the order or NULL.
-- name: order_sent
update outbox_orders
set status = 'sent', locked_by = null, last_error = ?4, last_error_detail = null, in_doubt = 0, broker_order_id = ?5,
    updated_at = {now}
{held}

-- 1 id, 2 worker, 3 failures when it was claimed, 4 code or NULL, 5 error, 6 in doubt, 7 the delay as a modifier.
-- name: order_retry
update outbox_orders
set status = 'failed', locked_by = null, retry_count = retry_count + 1,
    next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?7), last_error = ?4, last_error_detail = ?5,
    in_doubt = in_doubt or ?6, updated_at = {now}
{held}

-- 1 id, 2 worker, 3 failures when it was claimed, 4 code or NULL, 5 error, 6 in doubt. The count is one of retries, so
-- it stays.
-- name: order_dead
update outbox_orders
set status = 'dead', locked_by = null, last_error = ?4, last_error_detail = ?5, in_doubt = in_doubt or ?6,
    updated_at = {now}
{held}

-- 1 id, 2 worker, 3 lane. The letter of an order that is dead now. It is DEAD as well: an order is not sent again.
-- name: order_letter
insert into dlq_messages (original_topic, source, lane, outbox, outbox_row_id, status, error_message, error_class,
    producer, in_doubt, record_key, payload, record_value)
select ?3, 'lane:' || ?3, ?3, 'orders', id, 'DEAD',
    coalesce(nullif(last_error_detail, ''), nullif(last_error, ''), 'unknown error'), nullif(last_error, ''), ?2,
    in_doubt, cast(idempotency_key as blob), iif(json_valid(request_json), request_json, null),
    cast(request_json as blob)
from outbox_orders
where id = ?1 and status = 'dead'
on conflict (lane, outbox, outbox_row_id) where lane is not null do update
set status = excluded.status, error_message = excluded.error_message, error_class = excluded.error_class,
    producer = excluded.producer, in_doubt = excluded.in_doubt, updated_at = {now}

-- 1 ids as a JSON array, 2 worker.
-- name: renew_orders
update outbox_orders
set updated_at = {now}
where id in (select value from json_each(?1)) and status = 'sending' and locked_by = ?2
returning id

-- The same.
-- name: release_orders
update outbox_orders
set status = 'queued', locked_by = null, updated_at = {now}
where id in (select value from json_each(?1)) and status = 'sending' and locked_by = ?2
returning id

-- 1 how long nobody has renewed them, as a modifier back in time. Nobody knows whether their worker sent them.
-- name: rescue_orders
update outbox_orders indexed by outbox_orders_sending
set status = 'queued', locked_by = null, in_doubt = 1, updated_at = {now}
where status = 'sending' and updated_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?1)
returning id

-- 1 id, 2 reason, 3 detail, 4 count, 5 worker and actor. The order may be gone.
-- name: note_order
insert into outbox_audit (outbox, outbox_id, reason, detail, retry_count, worker, actor, idempotency_key, trace_id)
select 'orders', ?1, ?2, ?3, ?4, ?5, ?5, o.idempotency_key, o.trace_id
from (select 1)
left join outbox_orders o on o.id = ?1

-- 1 id.
-- name: order_state
select status, retry_count, locked_by, last_error_detail
from outbox_orders
where id = ?1

-- Only of the thousand rows of each state that have been due for longest, so that a long queue is not read to its end.
-- The oldest row is among them unless more retries than that are overdue.
-- name: order_lag
select (julianday('now') - julianday(min(created_at))) * 86400.0
from (
    select * from (
        select created_at
        from outbox_orders indexed by outbox_orders_claim
        where status = 'queued' and next_attempt_at <= {now}
        order by next_attempt_at, id
        limit 1000
    )
    union all
    select * from (
        select created_at
        from outbox_orders indexed by outbox_orders_failed
        where status = 'failed' and next_attempt_at <= {now}
        order by next_attempt_at, id
        limit 1000
    )
    union all
    select * from (
        select created_at
        from outbox_orders indexed by outbox_orders_sending
        where status = 'sending'
        order by id
        limit 1000
    )
)

-- name: order_counts
select status, count(*) from outbox_orders group by status
