-- Who may call deliverd's functions. PostgreSQL lets everyone execute a new function, and the trigger functions run with
-- their owner's rights: attached to a table of their own, they let a writer of events empty dlq_counts and dlq_dead.
-- Every role may call add_event; everything else needs a grant. docs/lease-protocol.md and `deliverd doctor` say which.
revoke execute on all functions in schema deliverd from public;
grant execute on function deliverd.add_event(text, text, jsonb, jsonb) to public;

-- A role keeps the functions that worked for it: those whose table it had the privilege on.
do $$
declare
    statement text;
begin
    for statement in
        with needed (function, relation, privilege) as (values
            ('enqueue_memory', $name$${schema}.outbox_memory$name$, 'INSERT'),
            ('claim_outbox', $name$${schema}.outbox_memory$name$, 'UPDATE'),
            ('ack_sent', $name$${schema}.outbox_memory$name$, 'UPDATE'),
            ('fail_retry', $name$${schema}.outbox_memory$name$, 'UPDATE'),
            ('mark_dead_by_worker', $name$${schema}.outbox_memory$name$, 'UPDATE'),
            ('keep_dead_memory', $name$${schema}.outbox_memory$name$, 'UPDATE'),
            ('renew_lease', $name$${schema}.outbox_memory$name$, 'UPDATE'),
            ('renew_lease_batch', $name$${schema}.outbox_memory$name$, 'UPDATE'),
            ('check_dedup', $name$${schema}.outbox_memory$name$, 'SELECT'),
            ('show_memory', $name$${schema}.outbox_memory$name$, 'SELECT'),
            ('fetch_unpublished', $name$${schema}.outbox$name$, 'SELECT'),
            ('events_by_aggregate', $name$${schema}.outbox$name$, 'SELECT'),
            ('show_event', $name$${schema}.outbox$name$, 'SELECT'),
            ('outbox_stats', $name$${schema}.outbox$name$, 'SELECT'),
            ('mark_published', $name$${schema}.outbox$name$, 'UPDATE'),
            ('increment_retry_count', $name$${schema}.outbox$name$, 'UPDATE'),
            ('delete_published', $name$${schema}.outbox$name$, 'DELETE'),
            -- A deliverd that does not own the tables.
            ('published_partition', 'deliverd.leases', 'UPDATE'),
            ('drop_published_partition', 'deliverd.leases', 'UPDATE'),
            ('json_or_null', 'deliverd.leases', 'UPDATE'),
            ('headers_of', 'deliverd.leases', 'UPDATE')
        ), acls (relation, owner, acl) as (
            select oid, relowner, relacl from pg_catalog.pg_class
            union all
            select a.attrelid, c.relowner, a.attacl
            from pg_catalog.pg_attribute a join pg_catalog.pg_class c on c.oid = a.attrelid
        )
        select distinct format('grant execute on function %s to %s', p.oid::regprocedure,
                               case when g.grantee = 0 then 'public' else quote_ident(pg_get_userbyid(g.grantee)) end)
        from needed n
        join pg_catalog.pg_proc p on p.pronamespace = 'deliverd'::regnamespace and p.proname = n.function
        join acls l on l.relation = to_regclass(n.relation)
        cross join lateral aclexplode(l.acl) g
        where g.privilege_type = n.privilege and g.grantee <> l.owner
    loop
        execute statement;
    end loop;
end
$$;

-- As in 0003, with a limit for what a relay has to hold at once, and for what becomes headers.
create or replace function deliverd.add_event(
    aggregate_id text, event_type text, payload jsonb, metadata jsonb default '{}')
returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(add_event.aggregate_id, '') = '' then
        raise exception 'aggregate_id must not be empty' using errcode = 'invalid_parameter_value';
    end if;
    if coalesce(add_event.event_type, '') = '' then
        raise exception 'event_type must not be empty' using errcode = 'invalid_parameter_value';
    end if;
    if add_event.payload is null then
        raise exception 'payload must not be null' using errcode = 'invalid_parameter_value';
    end if;
    if jsonb_typeof(coalesce(add_event.metadata, '{}')) <> 'object' then
        raise exception 'metadata must be a JSON object' using errcode = 'invalid_parameter_value';
    end if;
    if octet_length(add_event.payload::text) > 16777216 then
        raise exception 'payload has % bytes, more than the 16777216 allowed: store it elsewhere and send where it is',
            octet_length(add_event.payload::text) using errcode = 'invalid_parameter_value';
    end if;
    if octet_length(add_event.metadata::text) > 65536 then
        raise exception 'metadata has % bytes, more than the 65536 allowed: store it elsewhere and send where it is',
            octet_length(add_event.metadata::text) using errcode = 'invalid_parameter_value';
    end if;
    insert into ${schema}.outbox (aggregate_id, event_type, payload, metadata)
    values (add_event.aggregate_id, add_event.event_type, add_event.payload, coalesce(add_event.metadata, '{}'));
    -- Not RETURNING, which needs SELECT: who may write events need not be able to read them.
    return coalesce(currval(pg_get_serial_sequence($name$${schema}.outbox$name$, 'id')), lastval());
end
$$;
