"""kill -9 at every dangerous point of the lane, on both stores: nothing is lost, nothing is counted twice, and
duplicates happen only for messages in flight when the worker died."""

import signal
import threading
from collections import Counter

import pytest
from harness.receiver import Answer
from harness.stores import audit, by_status, fill, key, write_config
from harness.waiting import wait_for

ROWS = 40
LANE = {"lease_seconds": 1, "batch_size": 10, "parallelism": 4, "loop_interval_seconds": 0.05}
POINTS = ["lane.after_claim", "lane.before_send", "lane.after_send", "lane.before_settle", "store.during_settle"]


def worker(programs, config, worker_id, failpoints=None):
    return programs.start("worker", "--lane", "memories", "--loop", "--worker-id", worker_id, "--config", config,
                          failpoints=failpoints)


def open_rows(store):
    """The ids of unsettled rows, with their owners."""
    rows = store.query("SELECT outbox_id, locked_by FROM outbox_memory WHERE status = 'pending'")
    return {found["outbox_id"]: found["locked_by"] for found in rows}


def finish(store, programs, config, rows=ROWS):
    """A worker without a failpoint finishes the rest."""
    survivor = worker(programs, config, "survivor")
    wait_for(lambda: by_status(store) == {"sent": rows}, 40, lambda: f"every row to be sent: {by_status(store)}")
    survivor.terminate()
    assert survivor.wait() == 0


@pytest.mark.parametrize("passage", [1, 2])
@pytest.mark.parametrize("point", POINTS)
def test_killed(store, receiver, programs, tmp_path, point, passage):
    ids = fill(store, ROWS)
    config = write_config(tmp_path, store, receiver, lane=LANE)
    is_dead = threading.Event()
    if point == "store.during_settle":
        # The server may still execute that settle, which may cover all rows of the victim. So one send stays in flight.
        receiver.answer_with(lambda call: Answer(hold=is_dead if call.key == key(ids[0]) else None))
    victim = worker(programs, config, "victim", failpoints=f"{point}=crash@{passage}")
    assert victim.wait() == -signal.SIGKILL, victim.stderr
    is_dead.set()

    left = open_rows(store)
    assert any(owner == "victim" for owner in left.values()), "it held no row when it died"
    receiver.wait_until_read(20)  # what it sent may still be in sockets
    received = set(receiver.times())
    may_double = {key(outbox_id) for outbox_id, owner in left.items() if owner == "victim"} & received
    if (point, passage) in (("lane.after_claim", 1), ("lane.before_send", 1)):
        assert not received, "nothing had been sent yet"

    finish(store, programs, config)
    times = receiver.times()
    assert set(times) == {key(outbox_id) for outbox_id in ids}
    doubled = {sent for sent, count in times.items() if count > 1}
    assert doubled <= may_double
    assert all(count <= 2 for count in times.values())
    assert store.query("SELECT count(*) AS n FROM outbox_memory WHERE retry_count <> 0") == [{"n": 0}]
    settled = Counter(found["outbox_id"] for found in audit(store, "outbox_flush_success"))
    assert settled == dict.fromkeys(ids, 1)


def test_killed_again_and_again(store, receiver, programs, tmp_path):
    """One worker after another dies during its second settle. Each leaves fewer rows."""
    ids = fill(store, 3 * ROWS)
    config = write_config(tmp_path, store, receiver, lane=LANE)
    for number in range(3):
        victim = worker(programs, config, f"victim-{number}", failpoints="store.during_settle=crash@2")
        assert victim.wait() == -signal.SIGKILL, victim.stderr
    finish(store, programs, config, rows=3 * ROWS)
    assert set(receiver.times()) == {key(outbox_id) for outbox_id in ids}
    settled = Counter(found["outbox_id"] for found in audit(store, "outbox_flush_success"))
    assert settled == dict.fromkeys(ids, 1)
    assert store.query("SELECT count(*) AS n FROM outbox_memory WHERE retry_count <> 0") == [{"n": 0}]


def test_a_worker_that_hangs_after_its_claim_is_replaced_when_its_lease_expires(store, receiver, programs, tmp_path):
    ids = fill(store, ROWS)
    config = write_config(tmp_path, store, receiver, lane=LANE)
    hung = worker(programs, config, "hung", failpoints="lane.before_send=wait@1")
    hung.wait_for_stderr("failpoint lane.before_send")
    hung.stop_outside_a_transaction(store)
    finish(store, programs, config)
    assert receiver.times() == {key(outbox_id): 1 for outbox_id in ids}
