-- The DEAD letters by themselves, for listings: among many others they would be found only by looking through all. The
-- letters have no index by status (see 0004), and a letter becomes DEAD once, after its last retry.
-- The lock: a letter that dies while the list is made would be missing in it.

lock table dlq.dlq_messages in share row exclusive mode;

create table dlq.dlq_dead (
    id             uuid primary key,
    created_at     timestamptz not null,
    source_topic   text,
    original_topic text not null
);
create index dlq_dead_source_topic on dlq.dlq_dead (source_topic, created_at, id) where source_topic is not null;
create index dlq_dead_original_topic on dlq.dlq_dead (original_topic, created_at, id)
    where source_topic is distinct from original_topic;
create index dlq_dead_created on dlq.dlq_dead (created_at, id);

create function deliverd.list_dead_letters()
returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op in ('UPDATE', 'DELETE') then
        delete from dlq.dlq_dead d using old_rows o where o.status = 'DEAD' and d.id = o.id;
    end if;
    if tg_op in ('INSERT', 'UPDATE') then
        insert into dlq.dlq_dead (id, created_at, source_topic, original_topic)
        select n.id, n.created_at, n.source_topic, n.original_topic from new_rows n where n.status = 'DEAD';
    end if;
    return null;
end
$$;

create function deliverd.list_no_dead_letters()
returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from dlq.dlq_dead;
    return null;
end
$$;

create trigger dlq_messages_dead_come after insert on dlq.dlq_messages referencing new table as new_rows
    for each statement execute function deliverd.list_dead_letters();
create trigger dlq_messages_dead_change after update on dlq.dlq_messages
    referencing old table as old_rows new table as new_rows
    for each statement execute function deliverd.list_dead_letters();
create trigger dlq_messages_dead_go after delete on dlq.dlq_messages referencing old table as old_rows
    for each statement execute function deliverd.list_dead_letters();
create trigger dlq_messages_dead_none after truncate on dlq.dlq_messages
    for each statement execute function deliverd.list_no_dead_letters();

insert into dlq.dlq_dead (id, created_at, source_topic, original_topic)
select m.id, m.created_at, m.source_topic, m.original_topic from dlq.dlq_messages m where m.status = 'DEAD';
