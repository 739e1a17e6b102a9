"""`serve` as users see it: health, metrics, access, and how it ends."""

import hashlib
import re
import signal
import threading

import pytest
from harness.ports import free_port
from harness.receiver import Answer, answers
from harness.service import Service
from harness.stores import audit, by_status, fill, key, write_config
from harness.waiting import wait_for
from harness.web import get

TOKEN = "a long and secret token"


@pytest.fixture
def start(programs, store, receiver, tmp_path):
    def go(lane=None, server=None, **sections):
        port = free_port()
        config = write_config(tmp_path, store, receiver, lane={"loop_interval_seconds": 0.05} | (lane or {}),
                              server={"port": port} | (server or {}), **sections)
        return Service(programs, config, port)

    return go


def test_health_readiness_and_errors(start):
    service = start()
    assert service.get("/healthz").json() == {"status": "ok"}
    assert service.get("/readyz").status == 200
    missing = service.get("/nowhere")
    assert missing.status == 404
    assert set(missing.json()["error"]) >= {"code", "message", "request_id", "details"}
    wrong = service.get("/healthz", method="POST", body=b"")
    assert wrong.status == 405 and "GET" in wrong.headers["Allow"]
    named = get(service.base + "/nowhere", headers={"X-Request-Id": "my-id-1"})
    assert named.headers["X-Request-Id"] == "my-id-1"
    assert named.json()["error"]["request_id"] == "my-id-1"


def test_metrics_move_with_the_lane(start, store, receiver):
    ids = fill(store, 12)
    refused, failing = {key(ids[0])}, {key(ids[1]), key(ids[2])}
    receiver.answer_with(lambda call: Answer(400 if call.key in refused else 500 if call.key in failing else 200))
    service = start()
    wait_for(lambda: by_status(store) == {"sent": 9, "dead": 1, "pending": 2}, 20, lambda: f"{by_status(store)}")

    def by_reason(reason):
        return service.total(rf'reason="{reason}"')

    wait_for(lambda: by_reason("outbox_flush_success") == 9, 10, lambda: f"{service.metrics()}")
    wait_for(lambda: by_reason("outbox_flush_dead") == 1, 10, lambda: f"{service.metrics()}")
    wait_for(lambda: by_reason("outbox_flush_retry") == 2, 10, lambda: f"{service.metrics()}")
    samples = service.metrics()
    assert all('lane="memories"' in name for name in samples if "reason=" in name)
    for family in ("lag", "in_?flight", "queue", "database|db_", "sink|send"):
        assert any(re.search(family, name) for name in samples), f"no metric about {family}: {sorted(samples)}"


def test_sigterm_drains(start, store, receiver):
    ids = fill(store, 10)
    gate = threading.Event()
    receiver.answer_with(lambda call: Answer(hold=gate))
    service = start(lane={"batch_size": 10, "parallelism": 2})
    wait_for(lambda: receiver.count() == 2, 20, "two sends")
    service.process.terminate()
    # New connections are refused or answered with 503 once it is stopping.
    wait_for(lambda: service.get("/readyz").status != 200, 20, "serve to notice the signal")
    assert service.process.alive(), "it waits for sends in flight"
    gate.set()
    assert service.process.wait() == 0
    assert receiver.count() == 2, "nothing more was sent"
    assert by_status(store) == {"sent": 2, "pending": 8}
    assert store.query("SELECT count(*) AS n FROM outbox_memory WHERE locked_by IS NOT NULL") == [{"n": 0}]
    assert {found["outbox_id"] for found in audit(store, "outbox_flush_success")} == set(ids[:2])
    assert store.query("SELECT max(retry_count) AS n FROM outbox_memory") == [{"n": 0}]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_service_with_0(start, number):
    service = start()
    service.process.send(number)
    assert service.process.wait() == 0


def test_a_second_signal_ends_it_at_once(start, store, receiver):
    fill(store, 1)
    gate = threading.Event()
    receiver.answer_with(lambda call: Answer(hold=gate))
    service = start(server={"shutdown_seconds": 300})
    wait_for(lambda: receiver.count() == 1, 20, "the send")
    service.process.terminate()
    wait_for(lambda: service.get("/readyz").status != 200, 20, "serve to notice the signal")
    assert service.process.alive()
    service.process.terminate()
    service.process.wait()  # not after the send: its timeout would count as a retry
    gate.set()
    (left,) = store.query("SELECT status, retry_count FROM outbox_memory")
    assert left == {"status": "pending", "retry_count": 0}


def test_two_signals_at_once_still_give_unsent_rows_back(start, store, receiver):
    fill(store, 10)
    gate = threading.Event()
    receiver.answer_with(lambda call: Answer(hold=gate))
    service = start(server={"shutdown_seconds": 300}, lane={"batch_size": 10, "parallelism": 2})
    wait_for(lambda: receiver.count() == 2, 20, "two sends")
    service.process.send(signal.SIGTERM)
    service.process.send(signal.SIGINT)  # a different signal: two of the same kind may arrive as one
    assert service.process.wait() == 0
    gate.set()
    assert by_status(store) == {"pending": 10}
    assert store.query("SELECT count(*) AS n FROM outbox_memory WHERE locked_by IS NOT NULL") == [{"n": 2}]


def test_a_send_that_outlasts_the_shutdown_is_left_to_its_lease(start, store, receiver):
    fill(store, 1)
    gate = threading.Event()
    receiver.answer_with(lambda call: Answer(hold=gate))
    service = start(server={"shutdown_seconds": 0.5})
    wait_for(lambda: receiver.count() == 1, 20, "the send")
    service.process.terminate()
    service.process.wait()
    gate.set()
    (left,) = store.query("SELECT status, retry_count FROM outbox_memory")
    assert left == {"status": "pending", "retry_count": 0}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_an_open_address_without_auth_is_refused(programs, sqlite, receiver, tmp_path, host):
    config = write_config(tmp_path, sqlite, receiver, server={"host": host, "port": free_port()})
    line = programs.run("serve", "--config", config).error_line(2)
    assert host in line and "auth" in line


def test_an_open_address_with_auth_or_a_guard_is_served(start):
    hashed = hashlib.sha256(TOKEN.encode()).hexdigest()
    token = {"name": "ops", "role": "viewer", "sha256": hashed}
    start(server={"host": "0.0.0.0", "insecure_http": True}, auth={"tokens": [token]})
    start(server={"host": "0.0.0.0"}, auth={"mode": "none"})


def test_metrics_need_a_token_if_tokens_are_configured(start):
    hashed = hashlib.sha256(TOKEN.encode()).hexdigest()
    auth = {"tokens": [{"name": "ops", "role": "viewer", "sha256": hashed}]}
    service = start(auth=auth)
    assert service.get("/metrics").status == 401
    assert service.get("/metrics", token=TOKEN + "x").status == 401
    assert service.get("/metrics", token=hashed).status == 401
    assert service.get("/metrics", token=TOKEN).status == 200
    assert service.get("/healthz").status == service.get("/readyz").status == 200
    assert TOKEN not in service.process.stderr
    opened = start(auth=auth, server={"open_metrics": True})
    assert opened.get("/metrics").status == 200


def test_retries_are_automatic(start, store, receiver):
    """5xx, 5xx, then 200: sent after two waits, without intervention."""
    fill(store, 1)
    receiver.answer_with(answers(500, 503))
    start(lane={"retry": {"base_seconds": 0.5, "factor": 1, "cap_seconds": 1, "jitter": 0, "max": 5}})
    wait_for(lambda: by_status(store) == {"sent": 1}, 30, lambda: f"{by_status(store)}")
    assert receiver.count() == 3
    assert store.query("SELECT retry_count FROM outbox_memory") == [{"retry_count": 2}]
    assert [found["reason"] for found in audit(store)] \
        == ["outbox_flush_retry", "outbox_flush_retry", "outbox_flush_success"]
