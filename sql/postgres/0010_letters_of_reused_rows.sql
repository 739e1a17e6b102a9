-- Row ids start over: after a truncate with restart identity, in a restored table, in another `table:`. A letter was
-- identified by lane, outbox and row id alone, so that the next message with that id overwrote it.

-- event_id: of the event, where its table has one. retried_before_at: the value that last_retry_at had before the retry
-- under way. A retry that tried nothing puts it back.
alter table dlq.dlq_messages add column event_id text, add column retried_before_at timestamptz;

-- The letter that has the row id becomes a letter without a row, unless it is about the same message. It stays as it is
-- otherwise, and the new one is stored beside it.
-- The event id decides. Where there is none, equal contents do; but not for an event that nobody dealt with yet: its
-- letter does not hold everything of it (the type is missing).
create function deliverd.keep_other_letter()
returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    with kept as (
        update dlq.dlq_messages m
        set outbox_row_id = null
        where m.lane = new.lane and m.outbox = new.outbox and m.outbox_row_id = new.outbox_row_id
            and case when m.event_id is not null and new.event_id is not null then m.event_id <> new.event_id
                     else (m.outbox = 'events' and m.status <> 'RESOLVED')
                         or (m.record_key, m.record_value) is distinct from (new.record_key, new.record_value) end
        returning m.id, m.status
    )
    insert into dlq.dlq_audit (message_id, action, actor, status_from, status_to, detail)
    select k.id, 'row_reused', coalesce(new.producer, new.source), k.status, k.status,
           'row ' || new.outbox_row_id || ' of ' || new.lane || ' is another message''s now'
    from kept k;
    return new;
end
$$;

create trigger dlq_messages_other_row before insert on dlq.dlq_messages
    for each row when (new.lane is not null) execute function deliverd.keep_other_letter();
