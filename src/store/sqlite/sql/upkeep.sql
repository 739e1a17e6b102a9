-- Chores, their lease, and the ledger.

-- part: now
strftime('%Y-%m-%dT%H:%M:%fZ', 'now')

-- 1 chore, 2 the interval as a modifier back in time.
-- name: done_lately
select 1
from deliverd_chores
where name = ?1 and done_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?2)

-- 1 lease, 2 owner, 3 the lease's length as a modifier.
-- name: take_lease
insert into deliverd_leases (name, owner, token, expires_at)
values (?1, ?2, 1, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?3))
on conflict (name) do update
set token = token + (owner <> excluded.owner), owner = excluded.owner, expires_at = excluded.expires_at
where owner = excluded.owner or expires_at <= {now}

-- 1 lease, 2 owner, 3 the lease's length as a modifier.
-- name: keep_lease
update deliverd_leases
set expires_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?3)
where name = ?1 and owner = ?2

-- 1 lease, 2 owner. The row stays: its token must not start anew.
-- name: free_lease
update deliverd_leases
set expires_at = {now}
where name = ?1 and owner = ?2

-- 1 chore.
-- name: note_done
insert into deliverd_chores (name, done_at)
values (?1, {now})
on conflict (name) do update set done_at = excluded.done_at

-- 1 limit.
-- name: purge_ledger
delete from idempo_ledger
where idempotency_key in (
    select idempotency_key
    from idempo_ledger indexed by idempo_ledger_expiry
    where expires_at <= {now}
    order by expires_at
    limit ?1
)
