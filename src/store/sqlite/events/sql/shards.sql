-- Which relay holds which shards of a lane; and the other statements that do not depend on the event table. Those that
-- do are in event_table.sql.

-- part: now
strftime('%Y-%m-%dT%H:%M:%fZ', 'now')

-- 1 lane, 2 owner: how many shards there are, the last of them, other relays that are alive.
-- name: stored_shards
select count(*), coalesce(max(shard), -1), (
    select count(*)
    from deliverd_relays
    where lane = ?1 and owner <> ?2 and expires_at > {now}
)
from deliverd_shards
where lane = ?1

-- 1 lane. Tokens continue above the highest.
-- name: free_all_shards
update deliverd_shards
set owner = null, expires_at = {now}, token = (select max(token) from deliverd_shards where lane = ?1)
where lane = ?1

-- 1 lane, 2 how many there are to be.
-- name: make_shards
with recursive n (shard) as (select 0 union all select shard + 1 from n where shard + 1 < ?2)
insert into deliverd_shards (lane, shard, owner, token, expires_at)
select ?1, shard, null, coalesce((select max(token) from deliverd_shards where lane = ?1), 0), {now}
from n
where true
on conflict (lane, shard) do nothing

-- 1 lane, 2 how many there are to be.
-- name: drop_other_shards
delete from deliverd_shards where lane = ?1 and shard >= ?2

-- 1 lane, 2 how long ago, as a modifier.
-- name: forget_relays
delete from deliverd_relays where lane = ?1 and expires_at < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?2)

-- 1 lane, 2 owner, 3 the lease as a modifier.
-- name: heartbeat
insert into deliverd_relays (lane, owner, expires_at)
values (?1, ?2, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?3))
on conflict (lane, owner) do update set expires_at = excluded.expires_at

-- 1 lane, 2 owner. Answers how many relays are alive, and how many of them come before the owner. The owner itself is
-- alive, even if its lease is so short that it has run out.
-- name: count_relays
select count(*), count(*) filter (where owner < ?2)
from deliverd_relays
where lane = ?1 and (expires_at > {now} or owner = ?2)

-- 1 lane, 2 owner, 3 the lease as a modifier.
-- name: renew_shards
update deliverd_shards
set expires_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?3)
where lane = ?1 and owner = ?2

-- 1 lane, 2 owner, 3 the lease as a modifier, 4 limit.
-- name: take_shards
update deliverd_shards
set owner = ?2, token = token + 1, expires_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?3)
where lane = ?1
    and shard in (
        select shard
        from deliverd_shards
        where lane = ?1 and (owner is null or (owner <> ?2 and expires_at <= {now}))
        order by shard
        limit ?4
    )

-- 1 lane, 2 owner.
-- name: held_shards
select shard, token from deliverd_shards where lane = ?1 and owner = ?2 order by shard

-- 1 lane, 2 owner, 3 shard, 4 token.
-- name: owns_shard
select 1 from deliverd_shards where lane = ?1 and owner = ?2 and shard = ?3 and token = ?4

-- The same.
-- name: release_shard
update deliverd_shards
set owner = null, expires_at = {now}
where lane = ?1 and owner = ?2 and shard = ?3 and token = ?4

-- 1 lane, 2 owner.
-- name: release_all_shards
update deliverd_shards
set owner = null, expires_at = {now}
where lane = ?1 and owner = ?2

-- 1 lane, 2 owner.
-- name: leave
delete from deliverd_relays where lane = ?1 and owner = ?2

-- 1 lane, 2 row.
-- name: forget_failure
delete from deliverd_event_failures where lane = ?1 and row_id = ?2

-- 1 the row's number or 0, 2 reason, 3 status after, 4 failures, 5 error, 6 worker, 7 what the row is called where
-- that is no number.
-- name: audit_failure
insert into outbox_audit (outbox, outbox_id, reason, status_from, status_to, retry_count, last_error, worker, actor,
    idempotency_key)
values ('events', ?1, ?2, 'pending', ?3, ?4, ?5, ?6, ?6, ?7)

-- 1 table, 2 schema.
-- name: table_columns
select name, type, "notnull" from pragma_table_info(?1, ?2)

-- How many of the indexes of the table `outbox` that the migration makes are there.
-- name: own_indexes
select count(*)
from sqlite_schema
where type = 'index'
    and tbl_name = 'outbox'
    and name in ('outbox_open', 'outbox_open_aggregate', 'outbox_waiting_aggregate', 'outbox_waiting_due',
        'outbox_dead', 'outbox_published')
