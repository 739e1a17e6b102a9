"""Several workers on one table, and leases that outlast slow sends."""

import threading
from types import SimpleNamespace

import pytest
from harness.receiver import Answer
from harness.stores import audit, by_status, fill, key, row, write_config
from harness.waiting import wait_for

ROWS = 10_000


def test_two_processes_deliver_ten_thousand_rows_once_each(store, receiver, programs, tmp_path):
    config = write_config(tmp_path, store, receiver, lane={"loop_interval_seconds": 0.05})
    workers = [programs.start("worker", "--lane", "memories", "--loop", "--worker-id", name, "--config", config)
               for name in ("left", "right")]
    for worker in workers:
        worker.wait_for_stderr("worker started")  # otherwise one might do all the work before the other starts
    ids = fill(store, ROWS)
    wait_for(lambda: by_status(store) == {"sent": ROWS}, 80, lambda: f"all to be sent: {by_status(store)}")
    for worker in workers:
        worker.terminate()
    assert [worker.wait() for worker in workers] == [0, 0]
    assert receiver.times() == {key(outbox_id): 1 for outbox_id in ids}
    done = audit(store, "outbox_flush_success")
    assert len(done) == len({found["outbox_id"] for found in done}) == ROWS
    assert {found["worker"] for found in done} == {"left", "right"}, "both took part"


@pytest.fixture
def slow(store, receiver, programs, tmp_path):
    """Starts a worker whose sends wait until `let_go` is set. With --once it claims a single time, so
    only a renewal can change locked_at later."""
    let_go = threading.Event()
    receiver.answer_with(lambda call: Answer(hold=let_go))
    config = write_config(tmp_path, store, receiver, lane={"lease_seconds": 4, "parallelism": 1})

    def start(worker_id):
        return programs.start("worker", "--lane", "memories", "--once", "--worker-id", worker_id, "--config", config)

    yield SimpleNamespace(start=start, let_go=let_go)
    let_go.set()


def wait_until_renewed_beyond_the_first_lease(store, ids):
    """Four renewals, at a third of the lease each."""
    seen = {outbox_id: set() for outbox_id in ids}

    def renewed():
        for outbox_id in ids:
            seen[outbox_id].add(row(store, outbox_id)["locked_at"])
        return all(len(times) >= 5 for times in seen.values())

    wait_for(renewed, 40, lambda: f"every lease to be renewed four times: {seen}")


def test_a_slow_send_is_renewed_and_not_taken_by_another(store, receiver, slow):
    (outbox_id,) = fill(store, 1)
    owner = slow.start("owner")
    wait_for(lambda: receiver.count() == 1, 20, "the send")
    wait_until_renewed_beyond_the_first_lease(store, [outbox_id])
    assert slow.start("thief").wait() == 0
    assert row(store, outbox_id)["locked_by"] == "owner"
    slow.let_go.set()
    assert owner.wait() == 0
    assert row(store, outbox_id)["status"] == "sent"
    assert receiver.times() == {key(outbox_id): 1}
    assert audit(store, "outbox_flush_conflict") == []


def test_rows_waiting_behind_a_slow_send_are_renewed_too(store, receiver, slow):
    ids = fill(store, 5)
    owner = slow.start("owner")
    wait_for(lambda: receiver.count() == 1, 20, "the first send")
    wait_until_renewed_beyond_the_first_lease(store, ids)
    assert slow.start("thief").wait() == 0
    assert receiver.count() == 1
    slow.let_go.set()
    assert owner.wait() == 0
    assert by_status(store) == {"sent": 5}
    assert receiver.times() == {key(outbox_id): 1 for outbox_id in ids}
