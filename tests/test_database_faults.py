"""PostgreSQL becomes unavailable under a working lane, in every way it can. The lane recovers by itself."""

import threading
from collections import Counter

import psycopg
import pytest
from harness.ports import free_port
from harness.proxy import Proxy
from harness.receiver import Answer
from harness.stores import audit, by_status, fill, key, write_config
from harness.waiting import wait_for
from harness.web import get

ROWS = 1500
# A claim whose answer was lost leaves its rows leased until the lease expires. Leases are short so that the test ends.
LANE = {"lease_seconds": 4, "batch_size": 50, "parallelism": 8, "loop_interval_seconds": 0.05}
DONE_DEADLINE_SECONDS = 60


def start_worker(programs, store, receiver, folder, url=None, **database):
    config = write_config(folder, store, receiver, lane=LANE, database={"url": url or store.url} | database)
    return programs.start("worker", "--lane", "memories", "--loop", "--worker-id", "w", "--config", config)


def wait_for_all(store, worker, rows=ROWS):
    def done():
        assert worker.alive(), f"the worker ended with {worker.status()}:\n{worker.stderr[-3000:]}"
        return by_status(store) == {"sent": rows}

    wait_for(done, DONE_DEADLINE_SECONDS, lambda: f"every row to be sent: {by_status(store)}")
    worker.terminate()
    assert worker.wait() == 0


def check_nothing_lost_or_counted_twice(store, receiver, ids):
    assert set(receiver.times()) == {key(outbox_id) for outbox_id in ids}
    assert store.query("SELECT count(*) AS n FROM outbox_memory WHERE retry_count <> 0") == [{"n": 0}]
    # A claim may be lost in a server crash. Its rows are claimed again, and the lane knows which ones it sent.
    settled = Counter(found["outbox_id"] for reason in ("outbox_flush_success", "outbox_flush_dedup_hit")
                      for found in audit(store, reason))
    assert settled == dict.fromkeys(ids, 1)


def wait_for_calls(receiver, count):
    wait_for(lambda: receiver.count() >= count, 30, lambda: f"{count} sends, not {receiver.count()}")


def sent_ids(store):
    return {found["outbox_id"] for found in store.query("SELECT outbox_id FROM outbox_memory WHERE status = 'sent'")}


def test_restarted_while_the_lane_works(restartable, receiver, programs, tmp_path):
    ids = fill(restartable, ROWS)
    worker = start_worker(programs, restartable, receiver, tmp_path)
    settled_before = set()
    for enough in (ROWS // 4, ROWS // 2):
        wait_for_calls(receiver, enough)
        settled_before |= sent_ids(restartable)
        restartable.server.restart_immediate()
    wait_for_all(restartable, worker)
    check_nothing_lost_or_counted_twice(restartable, receiver, ids)
    times = receiver.times()
    assert all(times[key(outbox_id)] == 1 for outbox_id in settled_before), "what was settled stays settled"


def test_unavailable_for_a_while_with_sends_in_flight(restartable, receiver, programs, tmp_path):
    """Answers arrive while the database is down. They are settled once it is back."""
    ids = fill(restartable, 8)
    gate = threading.Event()
    receiver.answer_with(lambda call: Answer(hold=gate))
    # The lease must outlast the outage: an expired lease may be taken over, which would be correct.
    config = write_config(tmp_path, restartable, receiver, lane=LANE | {"lease_seconds": 60},
                          database={"pool_wait_seconds": 0.3})
    worker = programs.start("worker", "--lane", "memories", "--loop", "--worker-id", "w", "--config", config)
    wait_for(lambda: receiver.count() == 8, 20, "the sends")
    restartable.server.stop()
    gate.set()
    worker.wait_for_stderr('"operation":"settle"')  # it failed at least once
    restartable.server.start()
    wait_for_all(restartable, worker, rows=8)
    check_nothing_lost_or_counted_twice(restartable, receiver, ids)
    assert receiver.times() == {key(outbox_id): 1 for outbox_id in ids}


def test_backends_terminated_under_load(postgres, receiver, programs, tmp_path):
    ids = fill(postgres, ROWS)
    worker = start_worker(programs, postgres, receiver, tmp_path)
    ended = 0
    for round_number in range(1, 6):
        wait_for_calls(receiver, round_number * ROWS // 8)
        ended += len(wait_for(lambda: postgres.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE"
                                                     " datname = current_database() AND pid <> pg_backend_pid()"),
                              20, "a backend to end"))
    assert ended >= 5
    wait_for_all(postgres, worker)
    check_nothing_lost_or_counted_twice(postgres, receiver, ids)


def test_connections_cut_under_load(postgres, receiver, programs, proxy, tmp_path):
    ids = fill(postgres, ROWS)
    worker = start_worker(programs, postgres, receiver, tmp_path,
                          url=postgres.server.url(postgres.database, port=proxy.port))
    cut = 0
    for round_number in range(1, 6):
        wait_for_calls(receiver, round_number * ROWS // 8)
        cut += wait_for(proxy.cut, 20, "a connection to cut")
    assert cut >= 5
    wait_for_all(postgres, worker)
    check_nothing_lost_or_counted_twice(postgres, receiver, ids)


def other_backends(store):
    return store.query("SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database()"
                       " AND pid <> pg_backend_pid()")[0]["n"]


@pytest.mark.parametrize("setting", ["idle_session_timeout", "idle_in_transaction_session_timeout"])
def test_idle_timeouts_of_the_server(postgres, receiver, programs, tmp_path, setting):
    """Dead pooled connections are detected. No transaction ever idles."""
    postgres.query(f"ALTER DATABASE {postgres.database} SET {setting} = '100ms'")
    config = write_config(tmp_path, postgres, receiver, lane=LANE | {"loop_interval_seconds": 0.5})
    worker = programs.start("worker", "--lane", "memories", "--loop", "--worker-id", "w", "--config", config)
    ids = []
    for round_number in range(4):
        ids += fill(postgres, 100, start=100 * round_number)
        wait_for_calls(receiver, len(ids))
        if setting == "idle_session_timeout":
            wait_for(lambda: other_backends(postgres) == 0, 20, "the server to end every idle session")
    wait_for_all(postgres, worker, rows=400)
    check_nothing_lost_or_counted_twice(postgres, receiver, ids)
    assert receiver.times() == {key(outbox_id): 1 for outbox_id in ids}


@pytest.mark.parametrize("limits", [{"statement_timeout_seconds": 0.3, "lock_timeout_seconds": 60},
                                    {"statement_timeout_seconds": 60, "lock_timeout_seconds": 0.3}],
                         ids=["statement_timeout", "lock_timeout"])
def test_statements_that_time_out_are_repeated(postgres, receiver, programs, tmp_path, limits):
    """While somebody locks the table, settles and claims time out. Later they succeed."""
    ids = fill(postgres, 20)
    gate = threading.Event()
    receiver.answer_with(lambda call: Answer(hold=gate))
    config = write_config(tmp_path, postgres, receiver, database=limits,
                          lane=LANE | {"lease_seconds": 60, "parallelism": 20})
    worker = programs.start("worker", "--lane", "memories", "--loop", "--worker-id", "w", "--config", config)
    wait_for(lambda: receiver.count() == 20, 20, "the sends")
    with psycopg.connect(postgres.url) as holder:
        holder.execute("LOCK TABLE outbox_memory IN ACCESS EXCLUSIVE MODE")
        gate.set()
        worker.wait_for_stderr("db_timeout")
    wait_for_all(postgres, worker, rows=20)
    check_nothing_lost_or_counted_twice(postgres, receiver, ids)
    assert receiver.times() == {key(outbox_id): 1 for outbox_id in ids}


def test_readyz_follows_the_database_and_healthz_does_not(postgres, receiver, programs, tmp_path):
    proxy = Proxy(postgres.server.port)
    port = free_port()
    config = write_config(tmp_path, postgres, receiver, lane=LANE, server={"port": port},
                          database={"url": postgres.server.url(postgres.database, port=proxy.port)})
    serve = programs.start("serve", "--config", config)
    ready = f"http://127.0.0.1:{port}/readyz"
    wait_for(lambda: get(ready).status == 200, 20, lambda: f"readiness: {get(ready)} {serve.stderr}")
    proxy.refuse(True)
    proxy.cut()
    wait_for(lambda: get(ready).status == 503, 20, lambda: f"unreadiness: {get(ready)}")
    assert "database" in get(ready).text
    assert get(f"http://127.0.0.1:{port}/healthz").json() == {"status": "ok"}
    proxy.refuse(False)
    wait_for(lambda: get(ready).status == 200, 20, lambda: f"readiness again: {get(ready)}")
    fill(postgres, 5)
    wait_for(lambda: by_status(postgres) == {"sent": 5}, 20, lambda: f"{by_status(postgres)}")
    serve.terminate()
    assert serve.wait() == 0
    proxy.close()
