"""Several workers on one table, and leases that outlast slow sends."""

import threading

from harness.receiver import Answer
from harness.stores import audit, by_status, fill, key, row, write_config
from harness.waiting import wait_for

ROWS = 10_000


def test_two_processes_deliver_ten_thousand_rows_once_each(store, receiver, programs, tmp_path):
    config = write_config(tmp_path, store, receiver, lane={"loop_interval_seconds": 0.05})
    workers = [programs.start("worker", "--lane", "memories", "--loop", "--worker-id", name, "--config", config)
               for name in ("left", "right")]
    ids = fill(store, ROWS)
    wait_for(lambda: by_status(store) == {"sent": ROWS}, 80, lambda: f"all to be sent: {by_status(store)}")
    for worker in workers:
        worker.terminate()
    assert [worker.wait() for worker in workers] == [0, 0]
    assert receiver.times() == {key(outbox_id): 1 for outbox_id in ids}
    done = audit(store, "outbox_flush_success")
    assert len(done) == len({found["outbox_id"] for found in done}) == ROWS
    assert {found["worker"] for found in done} == {"left", "right"}, "both took part"


def test_a_slow_send_is_renewed_and_not_taken_by_another(store, receiver, programs, tmp_path):
    (outbox_id,) = fill(store, 1)
    gate = threading.Event()
    receiver.answer_with(lambda call: Answer(hold=gate))
    lease_seconds = 1.5
    config = write_config(tmp_path, store, receiver, lane={"lease_seconds": lease_seconds})
    slow = programs.start("worker", "--lane", "memories", "--loop", "--worker-id", "slow", "--config", config)
    wait_for(lambda: receiver.count() == 1, 20, "the send")
    seen = set()

    def renewed_often_enough():
        seen.add(row(store, outbox_id)["locked_at"])
        return len(seen) >= 6  # five renewals at a third of the lease: beyond the first lease's end

    wait_for(renewed_often_enough, 20, lambda: f"the lease to be renewed: {seen}")
    programs.run("worker", "--lane", "memories", "--once", "--worker-id", "thief", "--config", config).ok()
    assert row(store, outbox_id)["locked_by"] == "slow"
    gate.set()
    wait_for(lambda: row(store, outbox_id)["status"] == "sent", 20, "the row to be sent")
    slow.terminate()
    assert slow.wait() == 0
    assert receiver.times() == {key(outbox_id): 1}
    assert audit(store, "outbox_flush_conflict") == []


def test_rows_waiting_behind_a_slow_send_are_renewed_too(store, receiver, programs, tmp_path):
    ids = fill(store, 5)
    gate = threading.Event()
    receiver.answer_with(lambda call: Answer(hold=gate))
    config = write_config(tmp_path, store, receiver, lane={"lease_seconds": 1.5, "parallelism": 1, "batch_size": 5})
    slow = programs.start("worker", "--lane", "memories", "--loop", "--worker-id", "slow", "--config", config)
    wait_for(lambda: receiver.count() == 1, 20, "the first send")
    seen = {outbox_id: set() for outbox_id in ids}

    def all_renewed():
        for outbox_id in ids:
            seen[outbox_id].add(row(store, outbox_id)["locked_at"])
        return all(len(times) >= 6 for times in seen.values())

    wait_for(all_renewed, 20, lambda: f"all five leases to be renewed: {seen}")
    programs.run("worker", "--lane", "memories", "--once", "--worker-id", "thief", "--config", config).ok()
    assert receiver.count() == 1
    gate.set()
    wait_for(lambda: by_status(store) == {"sent": 5}, 20, "all to be sent")
    slow.terminate()
    assert slow.wait() == 0
    assert receiver.times() == {key(outbox_id): 1 for outbox_id in ids}
