"""A spool of two million entries, 1 GB: every command needs little memory. bench/spool.py also retries all of them."""

import json
import subprocess
import sys

import pytest
from harness.process import program

ENTRIES = 2_000_000
DUE_EVERY = 2000
OLD_EVERY = 4000
MOST_MEGABYTES = 100
LATER = 4_000_000_000_000
DEADLINE_SECONDS = 600


def write(path):
    """Most entries are pending and due later; a thousand are due, and five hundred were resolved long ago."""
    line = ('{"jobId":"hook-1770000000000-%08d","data":{"hook":{"n":%d,"text":"' + "x" * 300 + '"},'
            '"endpoint":"http://127.0.0.1:9/hooks"},"attemptsMade":1,"maxAttempts":5,"timestamp":1770000000000,'
            '"nextRetry":%d,"error":{"message":"503","code":"503"},"state":"%s"}\n')
    with open(path, "w", encoding="ascii", buffering=1 << 20) as file:
        for number in range(ENTRIES):
            due = number % DUE_EVERY == 0
            state = "resolved" if number % OLD_EVERY == 1 else "pending"
            file.write(line % (number, number, 1 if due else LATER, state))


# A process's peak starts with the peak of its parent, and this process's is large.
MEASURE = """
import os, sys
child = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(child, 0)
with open(sys.argv[1], "w") as file:
    file.write(str(usage.ru_maxrss // 1024))
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.fixture
def run(tmp_path, programs):
    def measure(command, *words):
        """Checks the command's memory against the limit; returns its output, or its size if that is large."""
        peak = tmp_path / "peak"
        with open(tmp_path / "out", "wb") as out:
            status = subprocess.run([sys.executable, "-S", "-c", MEASURE, peak, program("deliverd"), "spool", command,
                                     "--file", tmp_path / "hooks.jsonl", *words],
                                    stdout=out, env=programs.environment(), timeout=DEADLINE_SECONDS).returncode
        assert int(peak.read_text()) < MOST_MEGABYTES, f"{command} needed {peak.read_text()} MB"
        return status, tmp_path / "out"

    return measure


def test_two_million_entries_in_little_memory(run, tmp_path):
    path = tmp_path / "hooks.jsonl"
    write(path)
    whole = path.stat().st_size
    assert whole > 1_000_000_000
    status, out = run("list", "--json")
    assert status == 0
    assert out.stat().st_size == whole + 2 * ENTRIES, "every line, with the separators of an array"
    out.unlink()
    status, out = run("retry", "--json")  # the endpoint is private: refused without a connection
    due = ENTRIES // DUE_EVERY
    assert (status, json.loads(out.read_text())) == (1, {"total": due, "resolved": 0, "failed": due, "exhausted": 0})
    status, out = run("cleanup", "--json")
    old = ENTRIES // OLD_EVERY
    assert (status, json.loads(out.read_text())) == (0, {"kept": ENTRIES - old, "removed": old, "rejected": 0})
    path.unlink()
