-- The order outbox: orders, their idempotency ledger, and upkeep that one process at a time does.
-- docs/orders.md is the contract. ${schema} is the quoted schema of the outbox tables.

create table ${schema}.outbox_orders (
    id                bigserial primary key,
    idempotency_key   text not null unique,
    request_json      jsonb not null,
    request_digest    text not null,
    status            text not null check (status in ('queued', 'sending', 'sent', 'failed', 'dead')),
    retry_count       int not null default 0,
    next_attempt_at   timestamptz not null,
    last_error        text,
    created_at        timestamptz not null default now(),
    updated_at        timestamptz not null default now(),
    -- The request as it was posted: jsonb rewrites numbers (1e2 becomes 100) and the broker gets what was posted.
    -- Null in a row that was inserted by hand: then request_json itself is sent.
    request_body      text,
    trace_id          text,
    locked_by         text,  -- whose `sending` it is
    last_error_detail text,
    broker_order_id   text,
    -- An attempt ended without a usable answer, or its worker vanished: the broker may have the order. Until it is sent.
    in_doubt          boolean not null default false
) with (fillfactor = 70);

-- The claim's ORDER BY, and only what is queued: it stays small however many orders are settled.
create index outbox_orders_claim on ${schema}.outbox_orders (next_attempt_at, id) where status = 'queued';
-- What goes back to the queue once its wait is over.
create index outbox_orders_failed on ${schema}.outbox_orders (next_attempt_at, id) where status = 'failed';
-- What may be stuck.
create index outbox_orders_sending on ${schema}.outbox_orders (id) where status = 'sending';
-- What people look for among many that were sent.
create index outbox_orders_dead on ${schema}.outbox_orders (id) where status = 'dead';

create table ${schema}.idempo_ledger (
    idempotency_key text primary key,
    request_digest  text not null,
    result_digest   text,
    expires_at      timestamptz not null,
    -- The broker's answer as it came: text, because it is only ever given back.
    result_json     text
);

create index idempo_ledger_expiry on ${schema}.idempo_ledger (expires_at);

alter table ${schema}.outbox_audit add column detail text;

create table deliverd.leases (
    name       text primary key,
    owner      text not null,
    token      bigint not null,  -- one more with every change of owner
    expires_at timestamptz not null
);

create table deliverd.chores (
    name    text primary key,
    done_at timestamptz not null
);
