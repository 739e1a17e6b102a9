"""The ceiling: claim and acknowledge as bare SQL on one connection, directly through libpq.

Two prepared statements per batch, each in its own transaction. The client receives the claimed rows (in binary) and
uses only their ids, which it acknowledges.
"""

import time

import psycopg
from psycopg.pq import ExecStatus

CLAIM_MEMORIES = b"""
WITH picked AS MATERIALIZED (
    SELECT outbox_id FROM outbox_memory
    WHERE status = 'pending' AND next_attempt_at <= now()
      AND (locked_at IS NULL OR locked_at < now() - interval '60 seconds')
    ORDER BY next_attempt_at, outbox_id
    LIMIT $1 FOR UPDATE SKIP LOCKED)
UPDATE outbox_memory o SET locked_at = now(), locked_by = 'bare', updated_at = now()
FROM picked WHERE o.outbox_id = picked.outbox_id
RETURNING o.outbox_id, o.item_id, o.target_space, o.payload_md, o.payload_sha, o.retry_count, o.next_attempt_at
"""
ACK_MEMORIES = b"""
UPDATE outbox_memory SET status = 'sent', locked_at = NULL, locked_by = NULL, last_error = NULL, updated_at = now()
WHERE outbox_id = ANY ($1::bigint[]) AND status = 'pending' AND locked_by = 'bare'
"""
MEMORIES = (CLAIM_MEMORIES, ACK_MEMORIES)

CLAIM_ORDERS = b"""
WITH picked AS MATERIALIZED (
    SELECT id FROM outbox_orders
    WHERE status = 'queued' AND next_attempt_at <= now()
    ORDER BY next_attempt_at, id
    LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED)
UPDATE outbox_orders o SET status = 'sending', locked_by = 'bare', updated_at = now()
FROM picked WHERE o.id = picked.id
RETURNING o.id, o.idempotency_key, o.request_body, o.trace_id, o.retry_count, o.created_at, o.next_attempt_at
"""
SETTLE_ORDERS = b"""
WITH ledger AS (
    UPDATE idempo_ledger l
    SET result_digest = o.request_digest, result_json = '{"broker_order_id":"b-1"}',
        expires_at = now() + interval '48 hours'
    FROM outbox_orders o
    WHERE o.id = ANY ($1::bigint[]) AND l.idempotency_key = o.idempotency_key)
UPDATE outbox_orders SET status = 'sent', locked_by = NULL, broker_order_id = 'b-1', updated_at = now()
WHERE id = ANY ($1::bigint[]) AND status = 'sending' AND locked_by = 'bare'
"""
ORDERS = (CLAIM_ORDERS, SETTLE_ORDERS)

# What the relay reads of a row behind the last one. With order there is nothing to claim.
READ_EVENTS = b"""
SELECT id, aggregate_id, event_type, payload, event_id, metadata, created_at, now(), retry_count
FROM outbox WHERE NOT published AND dead_at IS NULL AND id > $2
ORDER BY id LIMIT $1
"""
PUBLISH_EVENTS = b"""
UPDATE outbox SET published = true, published_at = now() WHERE id = ANY ($1::bigint[]) AND NOT published
"""
EVENTS = (READ_EVENTS, PUBLISH_EVENTS)


def drain_events(url, batch_size):
    """As drain(), with the id of the last row as the position of the next read."""
    return drain(url, batch_size, EVENTS, by_position=True)


def drain(url, batch_size, statements=MEMORIES, by_position=False):
    """Processes every due row; returns (rows, seconds)."""
    with psycopg.connect(url, autocommit=True) as connection:
        wire = connection.pgconn
        for name, sql in zip((b"claim", b"ack"), statements):
            _check(wire, wire.prepare(name, sql), ExecStatus.COMMAND_OK)
        limit = [str(batch_size).encode()]
        position = [b"0"] if by_position else []
        rows = 0
        start = time.perf_counter()
        while True:
            claimed = wire.exec_prepared(b"claim", limit + position, result_format=1)
            _check(wire, claimed, ExecStatus.TUPLES_OK)
            count = claimed.ntuples
            if count == 0:
                return rows, time.perf_counter() - start
            ids = b",".join(b"%d" % int.from_bytes(claimed.get_value(at, 0), "big") for at in range(count))
            if by_position:
                position = [ids.rpartition(b",")[2]]
            acked = wire.exec_prepared(b"ack", [b"{" + ids + b"}"])
            _check(wire, acked, ExecStatus.COMMAND_OK)
            if acked.command_tuples != count:
                raise RuntimeError(f"{count} rows claimed, {acked.command_tuples} acknowledged")
            rows += count


def _check(wire, result, wanted):
    if result.status != wanted:
        raise RuntimeError(wire.error_message.decode(errors="replace"))
