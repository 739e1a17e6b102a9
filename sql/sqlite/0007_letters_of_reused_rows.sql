-- Row ids start over: in a table that was emptied, in a restored one, in another `table:`. A letter was identified by
-- lane, outbox and row id alone, so that the next message with that id overwrote it.

-- event_id: of the event, where its table has one. retried_before_at: the value that last_retry_at had before the retry
-- under way. A retry that tried nothing puts it back.
alter table dlq_messages add column event_id text;
alter table dlq_messages add column retried_before_at text;

-- The letter that has the row id becomes a letter without a row, unless it is about the same message. It stays as it is
-- otherwise, and the new one is stored beside it.
-- The event id decides. Where there is none, equal contents do; but not for an event that nobody dealt with yet: its
-- letter does not hold everything of it (the type is missing).
create trigger dlq_messages_other_row before insert on dlq_messages when new.lane is not null begin
    insert into dlq_audit (message_id, action, actor, status_from, status_to, detail)
        select m.id, 'row_reused', coalesce(new.producer, new.source), m.status, m.status,
            'row ' || new.outbox_row_id || ' of ' || new.lane || ' is another message''s now'
        from dlq_messages as m
        where m.lane = new.lane and m.outbox = new.outbox and m.outbox_row_id = new.outbox_row_id
            and iif(m.event_id is not null and new.event_id is not null, m.event_id <> new.event_id,
                (m.outbox = 'events' and m.status <> 'RESOLVED')
                or (m.record_key, m.record_value) is not (new.record_key, new.record_value));
    update dlq_messages set outbox_row_id = null
        where lane = new.lane and outbox = new.outbox and outbox_row_id = new.outbox_row_id
            and iif(event_id is not null and new.event_id is not null, event_id <> new.event_id,
                (outbox = 'events' and status <> 'RESOLVED')
                or (record_key, record_value) is not (new.record_key, new.record_value));
end;
