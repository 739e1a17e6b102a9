-- The order outbox: orders, their idempotency ledger, and upkeep that one process at a time does.
-- docs/orders.md is the contract. Times as in 0001.

create table outbox_orders (
    id                integer primary key autoincrement,
    idempotency_key   text not null unique,
    request_json      text not null,
    request_digest    text not null,
    status            text not null check (status in ('queued', 'sending', 'sent', 'failed', 'dead')),
    retry_count       integer not null default 0,
    next_attempt_at   text not null check (next_attempt_at like '____-__-__T__:__:__.___Z'),
    last_error        text,
    created_at        text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    updated_at        text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    trace_id          text,
    locked_by         text,  -- whose `sending` it is
    last_error_detail text,
    broker_order_id   text,
    -- An attempt ended without a usable answer, or its worker vanished: the broker may have the order. Until it is sent.
    in_doubt          integer not null default 0 check (in_doubt in (0, 1))
) strict;

-- The claim's ORDER BY, and only what is queued: it stays small however many orders are settled.
create index outbox_orders_claim on outbox_orders (next_attempt_at, id) where status = 'queued';
-- What goes back to the queue once its wait is over.
create index outbox_orders_failed on outbox_orders (next_attempt_at, id) where status = 'failed';
-- What may be stuck.
create index outbox_orders_sending on outbox_orders (id) where status = 'sending';
-- What people look for among many that were sent.
create index outbox_orders_dead on outbox_orders (id) where status = 'dead';

create table idempo_ledger (
    idempotency_key text primary key,
    request_digest  text not null,
    result_digest   text,
    expires_at      text not null check (expires_at like '____-__-__T__:__:__.___Z'),
    result_json     text
) strict;

create index idempo_ledger_expiry on idempo_ledger (expires_at);

alter table outbox_audit add column detail text;

create table deliverd_leases (
    name       text primary key,
    owner      text not null,
    token      integer not null,  -- one more with every change of owner
    expires_at text not null
) strict;

create table deliverd_chores (
    name    text primary key,
    done_at text not null
) strict;
