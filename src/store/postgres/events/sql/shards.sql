-- Which relay holds which shards of a lane: deliverd.shards and deliverd.relays. The lane is $1 everywhere; the number
-- of its shards is $2 if it is a parameter.

-- The lock of a lane. Relays that tend share it; a relay that changes the number of shards has it alone. A settle does
-- not need it, because it locks the rows of its leases.
-- part: lane_key
hashtextextended('deliverd.shards ' || $1::text, 0)

-- Nothing happens while the lane has another number of shards than this relay, because with another number of shards an
-- aggregate is in another shard.
-- part: fits
(select count(*) = $2::int and max(x.shard) = $2::int - 1 from deliverd.shards x where x.lane = $1::text)

-- name: share_lane
select pg_advisory_xact_lock_shared({lane_key})

-- name: lock_lane
select pg_advisory_xact_lock({lane_key})

-- Gives the lane this relay's number of shards unless another relay is alive. One statement, so that it decides on one
-- snapshot. Rows are locked in the order of the shards, as a settle does it. Parameters: lane, number of shards, owner.
-- name: remake_shards
with stored as materialized (
    select coalesce(max(token), 0) as token
    from deliverd.shards
    where lane = $1::text
    having not {fits}
        and not exists (
            select from deliverd.relays where lane = $1::text and owner <> $3::text and expires_at > now())
), old as materialized (
    select s.shard, stored.token
    from stored
    join deliverd.shards s on s.lane = $1::text
    order by s.shard
    for update of s
), gone as (
    delete from deliverd.shards s
    using old
    where s.lane = $1::text and s.shard = old.shard and old.shard >= $2::int
), kept as (
    update deliverd.shards s
    set owner = null, token = old.token, expires_at = '-infinity'
    from old
    where s.lane = $1::text and s.shard = old.shard and old.shard < $2::int
)
insert into deliverd.shards (lane, shard, owner, token, expires_at)
select $1::text, n, null, stored.token, '-infinity'
from stored, generate_series(0, $2::int - 1) as n
where not exists (select from old where old.shard = n)

-- Parameters: lane, number of shards, owner, lease in seconds.
-- name: beat
insert into deliverd.relays as r (lane, owner, expires_at)
select $1::text, $3::text, now() + $4::float8 * interval '1 second'
where {fits}
on conflict (lane, owner) do update set expires_at = excluded.expires_at

-- Never blocks: the next heartbeat comes soon. Parameters: lane, seconds for which it has been dead.
-- name: forget_relays
delete from deliverd.relays r
using (
    select g.owner
    from deliverd.relays g
    where g.lane = $1::text and g.expires_at < now() - $2::float8 * interval '1 second'
    for update skip locked
) as old
where r.lane = $1::text and r.owner = old.owner

-- In the order of the shards, as a settle locks them. Parameters: lane, number of shards, owner, lease in seconds.
-- name: renew_shards
with mine as materialized (
    select s.shard
    from deliverd.shards s
    where s.lane = $1::text and s.owner = $3::text and {fits}
    order by s.shard
    for no key update
)
update deliverd.shards s
set expires_at = now() + $4::float8 * interval '1 second'
from mine
where s.lane = $1::text and s.shard = mine.shard

-- Parameters: lane, owner. Answers relays alive, and this one's place among them. Names are compared as bytes, as all
-- relays and both stores do.
-- name: relays_alive
select count(*)::int, (count(*) filter (where owner collate "C" < $2::text collate "C"))::int
from deliverd.relays
where lane = $1::text and expires_at > now()

-- Skips shards in which another relay is settling at this moment: the next heartbeat can take them.
-- Parameters: lane, number of shards, owner, lease in seconds.
-- name: take_shards
with alive as materialized (
    select count(*)::int as relays,
        (count(*) filter (where owner collate "C" < $3::text collate "C"))::int as place
    from deliverd.relays
    where lane = $1::text and expires_at > now()
), free as materialized (
    select s.shard
    from deliverd.shards s
    where s.lane = $1::text and (s.owner is null or s.expires_at <= now()) and {fits}
    order by s.shard
    limit (
        select greatest(0, $2::int / greatest(relays, 1)
            + case when place < $2::int % greatest(relays, 1) then 1 else 0 end
            - (select count(*) from deliverd.shards m where m.lane = $1::text and m.owner = $3::text))
        from alive)
    for no key update skip locked
)
update deliverd.shards s
set owner = $3::text, token = s.token + 1, expires_at = now() + $4::float8 * interval '1 second'
from free
where s.lane = $1::text and s.shard = free.shard

-- Parameters: lane, owner.
-- name: held_shards
select shard, token from deliverd.shards where lane = $1::text and owner = $2::text order by shard

-- Parameters: lane, owner. Answers how many shards there are, the last of them, and how many other relays are alive.
-- name: stored_shards
select count(*), coalesce(max(shard), -1)::bigint,
    (select count(*) from deliverd.relays where lane = $1::text and owner <> $2::text and expires_at > now())
from deliverd.shards
where lane = $1::text

-- Parameters: lane, owner, shards, tokens.
-- name: release_shards
with mine as materialized (
    select s.shard
    from unnest($3::int[], $4::bigint[]) as i (shard, token)
    join deliverd.shards s on s.lane = $1::text and s.shard = i.shard
    where s.owner = $2::text and s.token = i.token
    order by s.shard
    for no key update of s
)
update deliverd.shards s
set owner = null, expires_at = now()
from mine
where s.lane = $1::text and s.shard = mine.shard

-- Parameters: lane, owner.
-- name: release_all_shards
with mine as materialized (
    select s.shard
    from deliverd.shards s
    where s.lane = $1::text and s.owner = $2::text
    order by s.shard
    for no key update
)
update deliverd.shards s
set owner = null, expires_at = now()
from mine
where s.lane = $1::text and s.shard = mine.shard

-- Parameters: lane, owner.
-- name: leave_lane
delete from deliverd.relays where lane = $1::text and owner = $2::text

-- Parameters: lane, owner, 1 or 0.
-- name: set_asleep
update deliverd.relays
set asleep = ($3::int = 1)
where lane = $1::text and owner = $2::text and asleep <> ($3::int = 1)
