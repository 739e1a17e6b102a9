-- Slots and publications, on PostgreSQL 13 and newer: only columns that 13 has are named.

-- Parameter: the slot. One row, also where there is no such slot.
-- name: slot_state
select s.slot_name is not null, coalesce(s.plugin, ''), coalesce(s.database, ''), coalesce(s.active, false),
    s.active_pid, coalesce(s.wal_status, ''), coalesce(s.confirmed_flush_lsn - '0/0', 0)::bigint,
    coalesce(s.restart_lsn - '0/0', 0)::bigint, (n.lsn - '0/0')::bigint, pg_is_in_recovery(),
    (select c.system_identifier::text from pg_control_system() c), current_setting('wal_level'), current_database()::text,
    current_user::text, (select r.rolsuper or r.rolreplication from pg_roles r where r.rolname = current_user)
from (select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end as lsn) n
left join pg_replication_slots s on s.slot_name = $1::text

-- Parameters: the publication, and the table's schema and name. One row, also where there is no such publication.
-- name: publication_state
select p.oid is not null, coalesce(p.pubinsert, false), coalesce(p.pubviaroot, false), c.oid is not null,
    coalesce(pg_has_role(c.relowner, 'usage'), false), has_database_privilege(current_database(), 'create'),
    coalesce((select count(*) from pg_partition_tree(c.oid) t where t.isleaf and t.level > 0), 0)
from (select 1) one
left join pg_publication p on p.pubname = $1::text
left join (pg_class c join pg_namespace n on n.oid = c.relnamespace) on n.nspname = $2::text and c.relname = $3::text

-- Parameters as above. The tables of the publication that hold rows of the outbox: itself or its partitions, and
-- whether a condition leaves rows out (a column that only newer servers have).
-- name: published_tables
select t.schemaname::text, t.tablename::text, to_jsonb(t) ->> 'rowfilter' is not null
from pg_publication_tables t
join pg_namespace tn on tn.nspname = t.schemaname
join pg_class tc on tc.relnamespace = tn.oid and tc.relname = t.tablename
join (pg_class c join pg_namespace n on n.oid = c.relnamespace) on n.nspname = $2::text and c.relname = $3::text
where t.pubname = $1::text and (tc.oid = c.oid or tc.oid in (select p.relid from pg_partition_tree(c.oid) p))
order by 1, 2

-- The statements that may need a superuser. {publication}, {table} and {role} are quoted names, {slot} is a literal.
-- name: create_publication
create publication {publication} for table {table} with (publish = 'insert', publish_via_partition_root = true)

-- name: publish_inserts
alter publication {publication} set (publish = 'insert')

-- name: add_table
alter publication {publication} add table {table}

-- With the condition that leaves rows out.
-- name: drop_table
alter publication {publication} drop table {table}

-- name: allow_replication
alter role {role} replication

-- name: set_wal_level
alter system set wal_level = 'logical' -- and restart the server

-- name: create_slot_by_hand
select pg_create_logical_replication_slot({slot}, 'pgoutput')

-- Parameter: the slot. Answers where its log begins.
-- name: create_slot
select (lsn - '0/0')::bigint from pg_create_logical_replication_slot($1::text, 'pgoutput')

-- Parameter: the slot. Also where there is none.
-- name: drop_slot
select pg_drop_replication_slot(s.slot_name) from pg_replication_slots s where s.slot_name = $1::text

-- Parameter: the prefix. Answers the position.
-- name: heartbeat
select (pg_logical_emit_message(false, $1::text, '') - '0/0')::bigint
