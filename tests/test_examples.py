"""The examples of the lease protocol, in C++ and in Python, run as a user would run them."""

import subprocess
import sys

import pytest

from harness.process import ROOT, program
from harness.stores import by_status, fill, row

DEADLINE_SECONDS = 60


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


def test_without_arguments_it_says_how_to_call_it(example):
    run(example, status=2)
