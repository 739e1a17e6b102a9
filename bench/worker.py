"""Sending orders: the lane `orders` of a `serve` sends waiting orders to a local receiver.

The receiver (bench/receiver.cc) answers at once, or after a delay as a broker would: then the parallelism decides. For
comparison: the bare SQL of a claim and a settle, on one connection, without audit.
"""

import json
import re
import subprocess
import threading

import bare
import usage
from harness.postgres import free_port
from harness.process import program
from harness.waiting import wait_for
from harness.web import get

BATCH_SIZE = 32  # the default
BROKER_DELAY_MS = 10
CASES = ((4, 0), (64, 0), (4, BROKER_DELAY_MS), (64, BROKER_DELAY_MS))  # parallelism, the receiver's delay in ms
DEADLINE_SECONDS = 300
SAMPLE_SECONDS = 0.05
FILL = """
WITH posted AS (
    SELECT 'bench-' || (1000000000000000 + n) AS key,
           '{"idempotency_key":"bench-' || (1000000000000000 + n) || '","symbol":"AAPL","intent":"BUY","qty":10,'
           '"limit_price":145.001,"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736",'
           '"meta":{"strategy":"mean-reversion","account":"A-1029"}}' AS body
    FROM generate_series(1, %s::bigint) AS n
), orders AS (
    INSERT INTO outbox_orders (idempotency_key, request_json, request_body, request_digest, trace_id, status,
                               next_attempt_at)
    SELECT key, body::jsonb, body, 'sha256:' || encode(sha256(convert_to(body, 'UTF8')), 'hex'),
           '4bf92f3577b34da6a3ce929d0e0e4736', 'queued', now()
    FROM posted
    RETURNING idempotency_key, request_digest)
INSERT INTO idempo_ledger (idempotency_key, request_digest, expires_at)
SELECT idempotency_key, request_digest, now() + interval '48 hours' FROM orders
"""
# By the database's clock, from the first claim to the last settle.
SPAN = """
SELECT extract(epoch FROM (SELECT max(updated_at) FROM outbox_orders WHERE status = 'sent')
                          - (SELECT min(at) FROM outbox_audit WHERE reason = 'outbox_claim'))::float8 AS seconds,
       (SELECT count(*) FROM outbox_orders WHERE status <> 'sent') AS not_sent,
       (SELECT count(*) FROM outbox_audit WHERE status_from = 'sending') AS settled
"""


def _prepared(server, template, rows):
    name = server.create_database(template)
    server.query(name, FILL, rows)
    server.query(name, "VACUUM (ANALYZE) outbox_orders, idempo_ledger")
    server.query(name, "CHECKPOINT")
    return name


def _metric(text, name):
    return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))


def _follow(serve, address, rows):
    """Waits until all are sent; returns how many were in flight at each sample."""
    seen = []
    pause = threading.Event()

    def all_sent():
        pause.wait(SAMPLE_SECONDS)
        text = get(address + "/metrics").text
        seen.append(_metric(text, "outbox_inflight"))
        return _metric(text, "outbox_send_total") >= rows

    wait_for(all_sent, DEADLINE_SECONDS, lambda: serve.stderr)
    return seen[:-1] or seen  # at the last look there was nothing left


def _lane(server, name, programs, folder, rows, parallelism, receiver_port):
    port = free_port()
    config = folder / "worker.yaml"
    sink = {"type": "http", "url": f"http://127.0.0.1:{receiver_port}/orders"}
    config.write_text(json.dumps({
        "database": {"url": server.url(name)}, "server": {"port": port},
        "lanes": {"orders": {"outbox": "orders", "parallelism": parallelism, "sink": sink}}}), encoding="utf-8")
    serve = programs.start("serve", "--config", config)
    watch = usage.Watch(serve.pid)
    try:
        wait_for(lambda: get(f"http://127.0.0.1:{port}/healthz").status == 200, 30, lambda: serve.stderr)
        in_flight = _follow(serve, f"http://127.0.0.1:{port}", rows)
        cpu = usage.cpu_seconds(serve.pid)
        serve.terminate()
        serve.wait()
    finally:
        watch.stop()
        serve.end()
    reported = server.query(name, SPAN)[0]
    if reported["not_sent"] or reported["settled"] != rows:
        raise RuntimeError(f"of {rows} orders {reported['not_sent']} were not sent, and {reported['settled']} were settled")
    return {"per_second": round(rows / reported["seconds"]), "in_flight_mean": round(sum(in_flight) / len(in_flight), 1),
            "in_flight_most": round(max(in_flight)), "cpu_seconds_per_million": round(cpu * 1e6 / rows, 1),
            "peak_mib": round(watch.peak_mib, 1)}


def _to_receiver(server, name, programs, folder, rows, parallelism, delay_ms):
    with subprocess.Popen([program("bench_receiver"), str(delay_ms)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as receiver:
        try:
            port = int(receiver.stdout.readline())
            return _lane(server, name, programs, folder, rows, parallelism, port)
        finally:
            receiver.stdin.close()


def measure(server, template, programs, folder, rows, say):
    say("orders: bare claim and settle")
    name = _prepared(server, template, rows)
    done, seconds = bare.drain(server.url(name), BATCH_SIZE, bare.ORDERS)
    server.drop_database(name)
    cases = []
    for parallelism, delay_ms in CASES:
        say(f"orders: sending, parallelism {parallelism}, answers after {delay_ms} ms")
        orders = rows // 10 if delay_ms and parallelism < 16 else rows  # else it would take minutes
        name = _prepared(server, template, orders)
        figures = _to_receiver(server, name, programs, folder, orders, parallelism, delay_ms)
        cases.append({"parallelism": parallelism, "delay_ms": delay_ms, "orders": orders} | figures)
        server.drop_database(name)
    return {"orders": rows, "batch_size": BATCH_SIZE, "bare_per_second": round(done / seconds), "cases": cases}
