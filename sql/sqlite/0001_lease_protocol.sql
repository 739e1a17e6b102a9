-- The lease protocol: table outbox_memory and its audit. docs/lease-protocol.md is the contract; the functions
-- that PostgreSQL has as SQL are statements of the client library here.
--
-- Times are text of one width, UTC with milliseconds, so that comparing the text compares the times.

create table if not exists deliverd_migrations (
    version    integer primary key,
    name       text not null,
    checksum   text not null,
    applied_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) strict;

create table outbox_memory (
    outbox_id       integer primary key autoincrement,
    item_id         integer,
    target_space    text not null,
    payload_md      text not null,
    payload_sha     text not null,
    status          text not null default 'pending' check (status in ('pending', 'sent', 'dead')),
    retry_count     integer not null default 0,
    next_attempt_at text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
                    check (next_attempt_at like '____-__-__T__:__:__.___Z'),
    locked_at       text check (locked_at like '____-__-__T__:__:__.___Z'),
    locked_by       text,
    last_error      text,
    created_at      text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    updated_at      text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) strict;

-- The claim's ORDER BY, and only the open rows: it stays small however many rows are settled.
create index outbox_memory_claim on outbox_memory (next_attempt_at, outbox_id) where status = 'pending';

create index outbox_memory_dedup on outbox_memory (payload_sha, target_space, outbox_id) where status = 'sent';

create table outbox_audit (
    audit_id        integer primary key autoincrement,
    outbox          text not null,
    outbox_id       integer not null,
    reason          text not null,
    status_from     text,
    status_to       text,
    retry_count     integer,
    last_error      text,
    idempotency_key text,
    trace_id        text,
    broker_order_id text,
    worker          text,
    actor           text,
    at              text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) strict;

-- One row's trail. The id alone: it grows with time, so inserts stay on the rightmost pages.
create index outbox_audit_trail on outbox_audit (outbox_id);
