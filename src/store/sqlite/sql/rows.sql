-- Rows that come in bulk or go in bulk, and what the schema has.

-- 1 key, 2 origin.
-- name: remember_import
insert into deliverd_imports (key, origin) values (?1, ?2) on conflict do nothing

-- 1 aggregate, 2 type, 3 payload, 4 metadata, 5 key.
-- name: import_event
insert into outbox (aggregate_id, event_type, payload, metadata, event_id) values (?1, ?2, ?3, ?4, ?5)

-- 1 origin, 2 actor. Of the row that was added last.
-- name: audit_import
insert into outbox_audit (outbox, outbox_id, reason, status_to, retry_count, detail, actor)
values ('events', last_insert_rowid(), 'event_imported', 'pending', 0, ?1, ?2)

-- 1 origin.
-- name: forget_imports
delete from deliverd_imports where origin = ?1

-- 1 space, 2 first id, 3 last id. The audit's lines go before the rows that say which they are.
-- name: remove_memory_audit
delete from outbox_audit
where outbox = 'memory'
    and outbox_id in (select outbox_id from outbox_memory where target_space = ?1 and outbox_id between ?2 and ?3)

-- name: remove_memories
delete from outbox_memory
where target_space = ?1 and outbox_id between ?2 and ?3

-- 1 id, 2 reason, 3 status before, 4 worker, 5 actor; the rest from the row as it is now.
-- name: audit_lease
insert into outbox_audit (outbox, outbox_id, reason, status_from, status_to, retry_count, last_error, worker, actor)
select 'memory', outbox_id, ?2, ?3, status, retry_count, last_error, ?4, ?5
from outbox_memory
where outbox_id = ?1

-- An event that a person or program changed: 1 id, 2 reason, 3 and 4 the status before and after, 5 count, 6 error, 7 detail, 8
-- actor.
-- name: audit_event
insert into outbox_audit (outbox, outbox_id, reason, status_from, status_to, retry_count, last_error, detail, actor)
values ('events', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)

-- Whether anything was migrated.
-- name: migrations_table
select name from sqlite_schema where type = 'table' and name = 'deliverd_migrations'

-- Run only where that table is.
-- name: applied_migrations
select version, name, checksum from deliverd_migrations order by version

-- A table `outbox`, whoever made it.
-- name: outbox_table
select name from sqlite_schema where lower(name) = 'outbox'

-- An index that only deliverd's own table `outbox` has.
-- name: own_outbox
select name from sqlite_schema where type = 'index' and name = 'outbox_dead' and tbl_name = 'outbox'
