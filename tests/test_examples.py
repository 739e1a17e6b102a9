"""The examples, in C++ and in Python, run as a user would run them."""

import json
import subprocess
import sys

import pytest
from harness.process import ROOT, program
from harness.receiver import Answer
from harness.service import start_without_lanes
from harness.stores import by_status, fill, row

DEADLINE_SECONDS = 240


@pytest.fixture(params=["C++", "Python"])
def example(request):
    if request.param == "C++":
        return [program("example_lease_worker")]
    return [sys.executable, ROOT / "examples" / "lease_worker.py"]


def run(example, *args, status=0):
    done = subprocess.run([*map(str, example), *args], capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def test_it_settles_every_row(example, postgres):
    ids = fill(postgres, 25)
    twin = fill(postgres, 1)[0]  # the first one's content again
    (failing,) = [found["id"] for found in postgres.query("SELECT deliverd.enqueue_memory('s', 'fail please') AS id")]
    done = run(example, postgres.url, "w1")
    assert done.stdout.splitlines()[-1] == "27 rows processed"
    assert by_status(postgres) == {"sent": 26, "pending": 1}
    for outbox_id in ids:
        assert row(postgres, outbox_id)["last_error"] == f"memory_id=memory-of-{outbox_id}"
    assert row(postgres, twin)["last_error"] == f"memory_id=memory-of-{ids[0]}"
    waiting = row(postgres, failing)
    assert (waiting["retry_count"], waiting["locked_by"]) == (1, None)
    assert 30 < postgres.seconds_from_now("next_attempt_at", failing) <= 60


def test_it_gives_up_at_the_fifth_failure(example, postgres):
    (failing,) = [found["id"] for found in postgres.query("SELECT deliverd.enqueue_memory('s', 'fail please') AS id")]
    for _ in range(5):
        postgres.make_due()
        run(example, postgres.url)
    assert row(postgres, failing)["status"] == "dead"
    assert run(example, postgres.url).stdout == "0 rows processed\n"


def test_two_of_them_share_a_table(example, postgres):
    fill(postgres, 500)
    both = [subprocess.Popen([*map(str, example), postgres.url, worker], stdout=subprocess.PIPE, text=True)
            for worker in ("left", "right")]
    lines = [line for process in both for line in process.communicate(timeout=DEADLINE_SECONDS)[0].splitlines()]
    assert [process.returncode for process in both] == [0, 0]
    worked_on = [line.split()[0] for line in lines if ": sent as" in line]
    assert len(worked_on) == len(set(worked_on)) == 500
    assert by_status(postgres) == {"sent": 500}


def test_without_arguments_it_prints_its_usage(example):
    run(example, status=2)


@pytest.fixture
def poster():
    return [sys.executable, ROOT / "examples" / "post_order.py"]


def order_file(folder, **changes):
    path = folder / "order.json"
    path.write_text(json.dumps({"idempotency_key": "order-0001", "symbol": "USDJPY", "intent": "BUY", "qty": 1.5} | changes))
    return str(path)


def test_an_order_is_posted_and_posted_again(poster, programs, tmp_path):
    service = start_without_lanes(programs, tmp_path)
    first = json.loads(run(poster, service.base, order_file(tmp_path)).stdout)
    assert (first["id"], first["status"]) == (1, "queued")
    assert json.loads(run(poster, service.base, order_file(tmp_path)).stdout) == first
    conflict = run(poster, service.base, order_file(tmp_path, qty=2), status=1)
    assert json.loads(conflict.stderr)["error"]["code"] == "IDEMPOTENCY_CONFLICT"


def test_an_unknown_outcome_is_repeated_with_the_same_bytes(poster, receiver, tmp_path):
    script = [Answer(503, {"error": {"code": "OUTCOME_UNKNOWN"}}), Answer(drop=True), Answer(201, {"id": 1})]
    receiver.answer_with(lambda call: script[call.number - 1])
    done = run(poster, f"http://127.0.0.1:{receiver.port}", order_file(tmp_path))
    assert json.loads(done.stdout) == {"id": 1}
    assert {(call.path, call.key, call.raw_body) for call in receiver.calls} == {
        ("/api/v1/orders", "order-0001", (tmp_path / "order.json").read_bytes())}
    assert receiver.count() == 3


def test_without_arguments_the_poster_prints_its_usage(poster):
    run(poster, status=2)
