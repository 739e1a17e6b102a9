#!/usr/bin/env python3
"""A worker for outbox_memory in Python that needs only the SQL functions of schema deliverd.

    lease_worker.py postgres://user@host/database [WORKER_ID]

Payloads that begin with "fail" fail: the worker tries them again a minute later and gives them up at the fifth
failure. It prints one line per row. Needs psycopg 3.
"""

import datetime
import sys

import psycopg
from psycopg.rows import namedtuple_row

MAX_FAILURES = 5
BATCH = 10
LEASE_SECONDS = 60
RETRY_SECONDS = 60


def deliver(row):
    """Replace this with the real work. Returns the receiver's name for the memory."""
    if row.payload_md.startswith("fail"):
        raise RuntimeError("payload begins with fail")
    return f"memory-of-{row.outbox_id}"


def call(connection, function, *arguments):
    marks = ", ".join(["%s"] * len(arguments))
    return connection.execute(f"SELECT deliverd.{function}({marks}) AS answer", arguments).fetchone().answer


def work(connection, worker, row):
    """Settles one row; returns the result as text."""
    known = connection.execute("SELECT * FROM deliverd.check_dedup(%s, %s)",
                               (row.target_space, row.payload_sha)).fetchone()
    if known:
        what, settled = "was sent before", call(connection, "ack_sent", row.outbox_id, worker, known.memory_id)
    else:
        # Not inside a transaction: the work may take long, and the lease holds the row during that time.
        call(connection, "renew_lease", row.outbox_id, worker)
        try:
            memory_id = deliver(row)
        except RuntimeError as error:
            if row.retry_count + 1 >= MAX_FAILURES:
                what = "dead"
                settled = call(connection, "mark_dead_by_worker", row.outbox_id, worker, str(error))
            else:
                what = "to be tried again"
                then = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=RETRY_SECONDS)
                settled = call(connection, "fail_retry", row.outbox_id, worker, str(error), then)
        else:
            what, settled = f"sent as {memory_id}", call(connection, "ack_sent", row.outbox_id, worker, memory_id)
    return what if settled else "taken over by another worker, nothing changed"


def drain(connection, worker):
    """Claims until nothing is due; returns the number of rows processed."""
    count = 0
    while rows := connection.execute("SELECT * FROM deliverd.claim_outbox(%s, %s, %s)",
                                     (worker, BATCH, LEASE_SECONDS)).fetchall():
        for row in rows:
            print(f"{row.outbox_id} {row.target_space}: {work(connection, worker, row)}")
            count += 1
    return count


def main(arguments):
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    worker = arguments[1] if len(arguments) == 2 else "example-worker"
    # autocommit: every call is its own transaction, so other workers see a claim at once.
    with psycopg.connect(arguments[0], autocommit=True, row_factory=namedtuple_row) as connection:
        print(f"{drain(connection, worker)} rows processed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
