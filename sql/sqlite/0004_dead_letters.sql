-- Dead letters: what consumers and lanes gave up on, who did what about it, and retries of whole topics.
-- docs/dead-letters.md is the contract. Times as in 0001.

-- Only original_topic need be given. What can be long stands last: a row's other columns are read without it.
create table dlq_messages (
    -- UUID version 7: sorts by the millisecond it was made in.
    id                    text not null primary key check (length(id) = 36) default (lower(
                              substr(printf('%012x', round((julianday('now') - 2440587.5) * 86400000)), 1, 8) || '-'
                              || substr(printf('%012x', round((julianday('now') - 2440587.5) * 86400000)), 9, 4) || '-7'
                              || substr(hex(randomblob(2)), 2) || '-' || substr('89ab', 1 + (abs(random()) % 4), 1)
                              || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))),
    original_topic        text not null,
    error_message         text not null default 'unknown error',
    retry_count           integer not null default 0,
    max_retries           integer not null default 3,
    status                text not null default 'PENDING'
                          check (status in ('PENDING', 'RETRYING', 'RESOLVED', 'DEAD')),
    created_at            text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
                          check (created_at like '____-__-__T__:__:__.___Z'),
    updated_at            text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
                          check (updated_at like '____-__-__T__:__:__.___Z'),
    last_retry_at         text,
    source                text not null default 'kafka',  -- kafka | lane:NAME | spool:NAME
    source_topic          text,
    source_partition      integer,
    source_offset         integer,
    record_timestamp_ms   integer,
    record_timestamp_type text check (record_timestamp_type in ('none', 'created', 'appended')),
    truncated             integer not null default 0 check (truncated in (0, 1)),
    error_class           text,
    original_partition    integer,
    original_offset       integer,
    producer              text,
    lane                  text,
    outbox                text check (outbox in ('orders', 'events', 'memory')),
    outbox_row_id         text,
    last_retry_error      text,
    -- A retry may have been published though nobody confirmed it.
    in_doubt              integer not null default 0 check (in_doubt in (0, 1)),
    retry_owner           text,  -- whose retry is under way …
    retry_expires_at      text,  -- … and until when it is only theirs
    record_key            blob,
    stack_trace           text,
    record_headers        text not null default '[]' check (json_type(record_headers) = 'array'),
    payload               text check (payload is null or json_valid(payload)),
    record_value          blob
) strict;

-- A record is stored once; the time, because a topic that was made anew counts from 0 again.
create unique index dlq_messages_record on dlq_messages
    (source_topic, source_partition, source_offset, record_timestamp_ms) where source_topic is not null;
create unique index dlq_messages_lane_row on dlq_messages (lane, outbox, outbox_row_id) where lane is not null;

-- Newest first. With the status, so that walking over what is settled touches no row.
create index dlq_messages_source_topic on dlq_messages (source_topic, created_at desc, id desc, status)
    where source_topic is not null;
create index dlq_messages_original_topic on dlq_messages (original_topic, created_at desc, id desc, status);
create index dlq_messages_newest on dlq_messages (created_at desc, id desc);
create index dlq_messages_status on dlq_messages (status, created_at desc, id desc);
create index dlq_messages_source on dlq_messages (source, created_at desc, id desc);
create index dlq_messages_error_class on dlq_messages (error_class, created_at desc, id desc)
    where error_class is not null;
-- The newest of a lane or a spool.
create index dlq_messages_elsewhere on dlq_messages (original_topic, source, created_at desc) where source_topic is null;
create index dlq_messages_purge on dlq_messages (status, updated_at);
-- What a process that died had begun.
create index dlq_messages_retries on dlq_messages (retry_owner) where retry_owner is not null;

-- How many there are of each kind. `topic` is the one a letter was read from, else the original one.
create table dlq_counts (
    topic          text not null,
    original_topic text not null,
    source         text not null,
    status         text not null,
    letters        integer not null,
    primary key (topic, original_topic, source, status)
) strict, without rowid;

create trigger dlq_messages_come after insert on dlq_messages begin
    insert into dlq_counts (topic, original_topic, source, status, letters)
        values (coalesce(new.source_topic, new.original_topic), new.original_topic, new.source, new.status, 1)
        on conflict (topic, original_topic, source, status) do update set letters = letters + 1;
end;
create trigger dlq_messages_go after delete on dlq_messages begin
    update dlq_counts set letters = letters - 1
        where topic = coalesce(old.source_topic, old.original_topic) and original_topic = old.original_topic
            and source = old.source and status = old.status;
    delete from dlq_counts
        where topic = coalesce(old.source_topic, old.original_topic) and original_topic = old.original_topic
            and source = old.source and status = old.status and letters <= 0;
end;
create trigger dlq_messages_change after update of status, source, source_topic, original_topic on dlq_messages
    when (old.status, old.source, old.source_topic, old.original_topic)
        is not (new.status, new.source, new.source_topic, new.original_topic)
begin
    update dlq_counts set letters = letters - 1
        where topic = coalesce(old.source_topic, old.original_topic) and original_topic = old.original_topic
            and source = old.source and status = old.status;
    delete from dlq_counts
        where topic = coalesce(old.source_topic, old.original_topic) and original_topic = old.original_topic
            and source = old.source and status = old.status and letters <= 0;
    insert into dlq_counts (topic, original_topic, source, status, letters)
        values (coalesce(new.source_topic, new.original_topic), new.original_topic, new.source, new.status, 1)
        on conflict (topic, original_topic, source, status) do update set letters = letters + 1;
end;

-- Stays when a letter is deleted.
create table dlq_audit (
    id          integer primary key autoincrement,
    at          text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    message_id  text not null,
    action      text not null,
    actor       text not null,
    status_from text,
    status_to   text,
    detail      text
) strict;
create index dlq_audit_trail on dlq_audit (message_id, id);

-- A retry of all of a topic: whose it is, and how far it has come, oldest first.
create table deliverd_redrives (
    topic               text primary key,
    actor               text not null,
    owner               text not null,
    expires_at          text not null,
    position_created_at text,
    position_id         text,
    up_to_created_at    text not null,
    up_to_id            text not null,
    published           integer not null default 0,
    failed              integer not null default 0,
    in_doubt            integer not null default 0,
    taken_over          integer not null default 0,
    finished            integer not null default 0 check (finished in (0, 1)),
    started_at          text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    updated_at          text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) strict;

-- Which table the events of a lane are in, and what its columns are called: a letter's row goes back there.
-- A column that is null is not there.
create table deliverd_event_tables (
    lane                   text primary key,
    table_name             text not null,
    id_column              text not null,
    published_column       text,
    retry_count_column     text,
    next_attempt_at_column text,
    dead_at_column         text
) strict;

-- What was dead before there were letters. The lanes' names are not known here: those of the documentation.
insert into dlq_messages (original_topic, source, lane, outbox, outbox_row_id, error_message, error_class, created_at,
        record_key, payload, record_value)
    select 'memory', 'lane:memory', 'memory', 'memory', outbox_id, coalesce(nullif(last_error, ''), 'unknown error'),
        iif(instr(last_error, ': ') > 1 and instr(last_error, ' ') > instr(last_error, ': '),
            substr(last_error, 1, instr(last_error, ': ') - 1), null),
        coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', updated_at), strftime('%Y-%m-%dT%H:%M:%fZ', 'now')), cast(target_space as blob), json_quote(payload_md), cast(payload_md as blob)
    from outbox_memory where status = 'dead';

insert into dlq_messages (original_topic, source, lane, outbox, outbox_row_id, status, error_message, error_class,
        created_at, in_doubt, record_key, payload, record_value)
    select 'orders', 'lane:orders', 'orders', 'orders', id, 'DEAD',
        coalesce(nullif(last_error_detail, ''), nullif(last_error, ''), 'unknown error'), nullif(last_error, ''),
        coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', updated_at), strftime('%Y-%m-%dT%H:%M:%fZ', 'now')), in_doubt, cast(idempotency_key as blob), iif(json_valid(request_json), request_json, null),
        cast(request_json as blob)
    from outbox_orders indexed by outbox_orders_dead where status = 'dead';

-- Of tables of others only this is known.
insert into dlq_messages (original_topic, source, lane, outbox, outbox_row_id, error_message, error_class, created_at,
        record_key)
    select lane, 'lane:' || lane, lane, 'events', row_id, coalesce(nullif(last_error, ''), 'unknown error'),
        iif(instr(last_error, ': ') > 1 and instr(last_error, ' ') > instr(last_error, ': '),
            substr(last_error, 1, instr(last_error, ': ') - 1), null),
        coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', dead_at), strftime('%Y-%m-%dT%H:%M:%fZ', 'now')), cast(aggregate_id as blob)
    from deliverd_event_failures where dead_at is not null;

-- where the table outbox is deliverd's own:
insert into dlq_messages (original_topic, source, lane, outbox, outbox_row_id, error_message, error_class, created_at,
        record_key, payload, record_value)
    select 'events', 'lane:events', 'events', 'events', id, coalesce(nullif(last_error, ''), 'unknown error'),
        iif(instr(last_error, ': ') > 1 and instr(last_error, ' ') > instr(last_error, ': '),
            substr(last_error, 1, instr(last_error, ': ') - 1), null),
        coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', dead_at), strftime('%Y-%m-%dT%H:%M:%fZ', 'now')), cast(aggregate_id as blob), payload, cast(payload as blob)
    from outbox indexed by outbox_dead where dead_at is not null and not published
    on conflict (lane, outbox, outbox_row_id) where lane is not null do nothing;
insert into deliverd_event_tables values
    ('events', 'outbox', 'id', 'published', 'retry_count', 'next_attempt_at', 'dead_at');
-- end where
