-- For pgbench, started by bench/intake.py: the rows of an accepted order of post_orders.lua, in one transaction.
-- `n` begins at 0; keys have sixteen digits. pgbench cannot build texts, so the server does.
\set n :n + 1
\set key 1000000000000000 + :client_id * 1000000000 + :n
begin;
insert into outbox_orders (idempotency_key, request_json, request_body, request_digest, trace_id, status,
                           next_attempt_at)
select 'bench-' || :key::bigint, body::jsonb, body,
       'sha256:1f0c5a2b7d3e94860a1b2c3d4e5f60718293a4b5c6d7e8f90112233445566778',
       '4bf92f3577b34da6a3ce929d0e0e4736', 'queued', now()
from (select '{"idempotency_key":"bench-' || :key::bigint || '","symbol":"AAPL","intent":"BUY","qty":10,'
             '"limit_price":145.001,"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736",'
             '"meta":{"strategy":"mean-reversion","account":"A-1029"}}' offset 0) as posted (body);
insert into idempo_ledger (idempotency_key, request_digest, expires_at)
values ('bench-' || :key::bigint, 'sha256:1f0c5a2b7d3e94860a1b2c3d4e5f60718293a4b5c6d7e8f90112233445566778',
        now() + interval '48 hours');
commit;
