-- What every connection may be asked.

-- name: ping
select 1

-- For the head of a transaction whose commit need not reach the disk.
-- name: relax_commit
select set_config('synchronous_commit', 'off', true)

-- Lane statements are all index lookups of known shape: the planner settings keep them so where statistics are old, and
-- one plan per statement saves planning each batch. The search_path has nothing in it that another role can add to: an
-- operator in `public` that fits a column's type better than PostgreSQL's own would run as deliverd's role. Names are
-- qualified here, where the server's own path still holds.
-- Parameters: statement, lock and idle-in-transaction timeout.
-- name: set_up_session
select pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false),
    pg_catalog.set_config('statement_timeout', $1, false),
    pg_catalog.set_config('lock_timeout', $2, false),
    pg_catalog.set_config('idle_in_transaction_session_timeout', $3, false),
    pg_catalog.set_config('enable_seqscan', 'off', false),
    pg_catalog.set_config('enable_bitmapscan', 'off', false),
    pg_catalog.set_config('enable_hashjoin', 'off', false),
    pg_catalog.set_config('enable_mergejoin', 'off', false),
    pg_catalog.set_config('jit', 'off', false),
    pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', false)
