-- What `deliverd migrate` and `deliverd doctor` ask the database about itself.

-- name: has_migrations
select 1 from pg_catalog.pg_tables where schemaname = 'deliverd' and tablename = 'migrations'

-- name: list_migrations
select version, name, checksum, outbox_schema from deliverd.migrations order by version

-- name: server_facts
select current_setting('server_version'), current_setting('synchronous_commit'), pg_is_in_recovery()

-- The grants that this user lacks on what exists, as statements to run. Asks the catalog by oid: the functions that take
-- names fail where the schema itself may not be used. Trigger functions need no grant: they run with their owner's
-- rights. Parameter: schema of the outbox tables.
-- name: missing_grants
with needed_table (nspname, relname, privileges) as (
    values
        ('deliverd'::name, 'migrations'::name, '{select}'::text[]),
        ('deliverd', 'leases', '{select,insert,update}'),
        ('deliverd', 'chores', '{select,insert,update}'),
        ('deliverd', 'shards', '{select,insert,update,delete}'),
        ('deliverd', 'relays', '{select,insert,update,delete}'),
        ('deliverd', 'event_failures', '{select,insert,update,delete}'),
        ('deliverd', 'imports', '{select,insert,delete}'),
        ('deliverd', 'redrives', '{select,insert,update,delete}'),
        ('deliverd', 'event_tables', '{select,insert,update}'),
        ('dlq', 'dlq_messages', '{select,insert,update,delete}'),
        ('dlq', 'dlq_counts', '{select}'),
        ('dlq', 'dlq_dead', '{select}'),
        ('dlq', 'dlq_audit', '{select,insert,delete}'),
        ($1::name, 'outbox_memory', '{select,insert,update}'),
        ($1::name, 'outbox_audit', '{select,insert}'),
        ($1::name, 'outbox_orders', '{select,insert,update}'),
        ($1::name, 'idempo_ledger', '{select,insert,update,delete}')
), present as (
    select c.oid, n.nspname, c.relname, t.privileges
    from needed_table t
    join pg_catalog.pg_namespace n using (nspname)
    join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = t.relname
), lacking (place, what) as (
    select 1, 'usage on schema ' || quote_ident(nspname)
    from pg_catalog.pg_namespace
    where nspname in ('deliverd', 'dlq', $1::name) and not has_schema_privilege(oid, 'usage')
    union all
    select 2, array_to_string(privileges, ', ') || ' on ' || quote_ident(nspname) || '.' || quote_ident(relname)
    from present
    where exists (
        select from unnest(privileges) as p (name) where not has_table_privilege(present.oid, p.name))
    union all
    select 3, 'usage on sequence ' || quote_ident(p.nspname) || '.' || quote_ident(s.relname)
    from present p
    join pg_catalog.pg_depend d on d.refobjid = p.oid and d.deptype = 'a'
        and d.refclassid = 'pg_catalog.pg_class'::regclass and d.classid = 'pg_catalog.pg_class'::regclass
    join pg_catalog.pg_class s on s.oid = d.objid
    where case when s.relkind = 'S' then not has_sequence_privilege(s.oid, 'usage') end
    union all
    select 4, 'execute on function ' || string_agg(p.oid::regprocedure::text, ', ' order by p.proname)
    from pg_catalog.pg_proc p
    join pg_catalog.pg_namespace n on n.oid = p.pronamespace
    where n.nspname = 'deliverd' and p.prorettype <> 'trigger'::regtype and p.proname <> 'sum_up_letters'
        and not has_function_privilege(p.oid, 'execute')
    having count(*) > 0
)
select 'grant ' || what || ' to ' || quote_ident(current_user) || ';' from lacking order by place, what

-- Who else may create objects in the schema, as a list for people; `everyone` stands for PUBLIC and comes first.
-- Parameter: schema of the outbox tables.
-- name: creators_in_schema
select coalesce(string_agg(case when a.grantee = 0 then 'everyone' else r.rolname::text end, ', ' order by a.grantee), '')
from pg_catalog.pg_namespace n
cross join lateral aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
left join pg_catalog.pg_roles r on r.oid = a.grantee
where n.nspname = $1::name and a.privilege_type = 'CREATE' and a.grantee <> n.nspowner
    and r.rolname is distinct from current_user
