-- Imported events. {schema} holds the outbox tables.

-- Parameters: origin, actor; arrays of keys, aggregates, types, payloads, metadata.
-- name: store_import
with given as materialized (
    select i.key::uuid as key, i.aggregate_id, i.event_type, i.payload::jsonb as payload,
        i.metadata::jsonb as metadata, i.place
    from unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
        with ordinality as i (key, aggregate_id, event_type, payload, metadata, place)
), fresh as (
    insert into deliverd.imports (key, origin)
    select g.key, $1::text from given g
    on conflict do nothing
    returning key
), added as (
    insert into {schema}.outbox (aggregate_id, event_type, payload, metadata, event_id)
    select g.aggregate_id, g.event_type, g.payload, g.metadata, g.key
    from given g
    join fresh f using (key)
    order by g.place
    returning id
), trail as (
    insert into {schema}.outbox_audit (outbox, outbox_id, reason, status_to, retry_count, detail, actor)
    select 'events', a.id, 'event_imported', 'pending', 0, $1::text, $2::text
    from added a
)
select count(*) from added

-- Parameter: origin.
-- name: forget_import
delete from deliverd.imports where origin = $1::text
