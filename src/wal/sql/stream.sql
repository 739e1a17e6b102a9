-- What a replication connection is asked besides the commands of replication. One statement each, without parameters:
-- such a connection knows only the simple protocol. It has the role's own search_path, so names are qualified.

-- The formats of values as value_text.h reads them, whatever is set for the role or the database. Answers the server's
-- wal_sender_timeout in milliseconds.
-- name: set_up_stream
select pg_catalog.set_config('datestyle', 'ISO, YMD', false),
    pg_catalog.set_config('timezone', 'UTC', false),
    pg_catalog.set_config('bytea_output', 'hex', false),
    pg_catalog.set_config('intervalstyle', 'postgres', false),
    pg_catalog.set_config('extra_float_digits', '3', false),
    (select s.setting from pg_catalog.pg_settings s where s.name operator(pg_catalog.=) 'wal_sender_timeout')

-- Why a slot could not be read: {slot} is its name as a literal. Nulls where there is no such slot.
-- name: why_not_started
select pg_catalog.current_setting('wal_level'), pg_catalog.current_database(), s.plugin, s.database, s.wal_status
from (select 1) one
left join pg_catalog.pg_replication_slots s on s.slot_name operator(pg_catalog.=) {slot}
