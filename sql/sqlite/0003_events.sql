-- The event outbox: the table applications write into in their own transaction, and who relays which part of it.
-- docs/events.md is the contract. Times as in 0001.

-- `outbox` is a name that other programs use as well. Where there is one already, `deliverd migrate` leaves these
-- statements out: a lane relays that table with `table:` and `columns:`.
-- unless there is a table outbox:
create table outbox (
    id              integer primary key autoincrement,
    aggregate_id    text not null check (length(aggregate_id) between 1 and 255),
    event_type      text not null check (length(event_type) between 1 and 255),
    payload         text not null check (json_valid(payload)),
    created_at      text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    published_at    text,
    published       integer not null default 0 check (published in (0, 1)),
    event_id        text not null default (lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4'
                        || substr(hex(randomblob(2)), 2) || '-' || substr('89ab', 1 + (abs(random()) % 4), 1)
                        || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))),
    metadata        text not null default '{}' check (json_type(metadata) = 'object'),
    retry_count     integer not null default 0,
    next_attempt_at text,
    last_error      text,
    dead_at         text
) strict;

-- What is still to be sent, in the order of the reading. Small however many rows were published.
create index outbox_open on outbox (id) where not published and dead_at is null;
-- The rest of an aggregate whose first event had to wait.
create index outbox_open_aggregate on outbox (aggregate_id, id) where not published and dead_at is null;
-- What failed and waits: by aggregate, because what comes after it waits as well, and by time.
create index outbox_waiting_aggregate on outbox (aggregate_id, id)
    where retry_count > 0 and not published and dead_at is null;
create index outbox_waiting_due on outbox (coalesce(next_attempt_at, ''), id)
    where retry_count > 0 and not published and dead_at is null;
-- What was given up, and what `on_dead: block` keeps behind it.
create index outbox_dead on outbox (aggregate_id, id) where dead_at is not null;
-- What is to be deleted.
create index outbox_published on outbox (coalesce(published_at, created_at)) where published;
-- end unless

create table deliverd_shards (
    lane       text not null,
    shard      integer not null,
    owner      text,
    token      integer not null,
    expires_at text not null,
    primary key (lane, shard)
) strict;

create table deliverd_relays (
    lane       text not null,
    owner      text not null,
    expires_at text not null,
    primary key (lane, owner)
) strict;

create table deliverd_event_failures (
    lane            text not null,
    row_id          text not null,
    aggregate_id    text not null,
    retry_count     integer not null,
    next_attempt_at text,
    last_error      text,
    dead_at         text,
    primary key (lane, row_id)
) strict;
create index deliverd_event_failures_aggregate on deliverd_event_failures (lane, aggregate_id);
create index deliverd_event_failures_due on deliverd_event_failures (lane, coalesce(next_attempt_at, ''))
    where dead_at is null;
