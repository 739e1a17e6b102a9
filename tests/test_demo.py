"""`demo`: what a newcomer sees first."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from harness.process import program
from harness.waiting import wait_for
from harness.web import get


def check_totals(line):
    """Per lane: enqueued = sent + dead + open, and something was sent."""
    totals = json.loads(line)
    lanes = totals.get("lanes", totals)
    assert lanes
    for lane in lanes.values():
        assert lane["enqueued"] == lane["sent"] + lane["dead"] + lane["open"], totals
        assert lane["sent"] > 0
    return lanes


def last_line(text):
    return [line for line in text.splitlines() if line.strip()][-1]


def test_it_runs_for_some_seconds_and_its_totals_add_up(programs):
    done = programs.run("demo", "--seconds", "4", "--rate", "100", "--port", "0").ok()
    lanes = check_totals(last_line(done.stdout))
    assert sum(lane["enqueued"] for lane in lanes.values()) >= 100
    assert "\x1b[" not in done.stdout, "no terminal: plain lines"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_it_cleanly(programs, number):
    demo = programs.start("demo", "--rate", "100", "--port", "0")
    address = wait_for(lambda: re.search(r"http://127\.0\.0\.1:\d+", demo.stdout + demo.stderr), 20,
                       lambda: f"an address to look at: {demo.stdout} {demo.stderr}").group()

    def sent():
        found = re.findall(r'^\S*reason="outbox_flush_success"\S* (\S+)$', get(address + "/metrics").text, re.MULTILINE)
        return sum(map(float, found)) > 20

    wait_for(sent, 20, lambda: get(address + "/metrics").text)
    demo.send(number)
    assert demo.wait() == 0, demo.stderr
    check_totals(last_line(demo.stdout))


def test_it_leaves_no_files(programs, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    programs.run("demo", "--seconds", "1", "--port", "0", env={"TMPDIR": str(temporary)}).ok()
    assert list(temporary.iterdir()) == []
    assert not list(tmp_path.glob("*.db"))


def test_on_a_terminal_it_draws_a_live_view(programs, tmp_path):
    primary, secondary = pty.openpty()
    demo = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", program("deliverd"), "demo", "--seconds",
                             "3", "--rate", "100", "--port", "0"], stdin=secondary, stdout=secondary,
                            stderr=secondary, cwd=tmp_path, env=programs.environment({"TERM": "xterm-256color"}))
    os.close(secondary)
    shown = b""
    end = time.monotonic() + 60
    try:
        while time.monotonic() < end:
            if not select.select([primary], [], [], 1)[0]:
                continue
            try:
                chunk = os.read(primary, 65536)
            except OSError:  # the other side is closed
                break
            shown += chunk
        assert demo.wait(10) == 0, shown.decode(errors="replace")
    finally:
        demo.kill()
        demo.wait(10)
        os.close(primary)
    text = shown.decode()
    assert len(re.findall(r"\x1b\[[0-9;?]*[A-Za-z]", text)) > 5, "the view is redrawn in place"
    for word in ("sent", "open", "dead", "lag"):
        assert word in text
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "")
    check_totals(last_line(plain))
