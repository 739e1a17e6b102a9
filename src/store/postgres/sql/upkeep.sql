-- The one lease of upkeep (deliverd.leases), its chores (deliverd.chores), and what they delete. {schema} holds the
-- outbox tables.

-- So that there is a row to lock. No process is named ''. Parameter: name.
-- name: make_lease
insert into deliverd.leases (name, owner, token, expires_at)
values ($1::text, '', 0, '-infinity')
on conflict (name) do nothing

-- Parameter: name.
-- name: lock_lease
select 1 from deliverd.leases where name = $1::text for update

-- A statement of its own behind the lock: it sees what the owner that it waited for has done.
-- Parameters: name, owner, length in seconds, chore, interval in seconds.
-- name: take_lease
update deliverd.leases l
set token = l.token + case when l.owner = $2::text then 0 else 1 end,
    owner = $2::text,
    expires_at = now() + $3::float8 * interval '1 second'
where l.name = $1::text
    and (l.owner = $2::text or l.expires_at <= now())
    and not exists (
        select from deliverd.chores c
        where c.name = $4::text and c.done_at > now() - $5::float8 * interval '1 second')
returning true

-- Parameters: name, owner, length in seconds.
-- name: keep_lease
update deliverd.leases
set expires_at = now() + $3::float8 * interval '1 second'
where name = $1::text and owner = $2::text
returning true

-- The lease's row stays, so that its token never starts anew. Parameters: name, owner, chore, 1 when it is done.
-- name: end_lease
with freed as (
    update deliverd.leases
    set expires_at = now()
    where name = $1::text and owner = $2::text
    returning name
)
insert into deliverd.chores (name, done_at)
select $3::text, now() from freed where $4::int = 1
on conflict (name) do update set done_at = excluded.done_at

-- Parameter: limit. Answers how many rows of the ledger are gone.
-- name: purge_ledger
with over as materialized (
    select l.idempotency_key
    from {schema}.idempo_ledger l
    where l.expires_at <= now()
    order by l.expires_at
    limit $1::int
    for update skip locked
), gone as (
    delete from {schema}.idempo_ledger l
    using over
    where l.idempotency_key = over.idempotency_key
    returning 1
)
select count(*) from gone
