"""`demo`: what a newcomer sees first."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
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

    def sent():  # in each of the three lanes; a first attempt may fail and is tried again seconds later
        found = re.findall(r'^\S*reason="outbox_flush_success"\S* (\S+)$', get(address + "/metrics").text, re.MULTILINE)
        return len(found) == 3 and all(float(count) > 0 for count in found)

    wait_for(sent, 20, lambda: get(address + "/metrics").text)
    demo.send(number)
    assert demo.wait() == 0, demo.stderr
    check_totals(last_line(demo.stdout))


def test_it_shows_dead_letters_and_sends_some_back(programs):
    done = programs.run("demo", "--seconds", "8", "--rate", "200", "--port", "0").ok()
    letters = json.loads(last_line(done.stdout))["dead_letters"]
    assert letters["sent_back"] >= letters["resolved"] > 0, letters
    lanes = check_totals(last_line(done.stdout))
    assert letters["dead"] == lanes["orders"]["dead"], "orders are not sent again"
    assert letters["pending"] == lanes["memories"]["dead"] + lanes["events"]["dead"]


def test_a_high_rate_is_reached(programs):
    """A single enqueue waits for the disk; enqueues in one transaction share the wait."""
    done = programs.run("demo", "--seconds", "6", "--rate", "2000", "--port", "0").ok()
    lanes = check_totals(last_line(done.stdout))
    assert sum(lane["enqueued"] for lane in lanes.values()) >= 6000, "half of it, on a machine with other work"


def test_it_leaves_no_files(programs, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    programs.run("demo", "--seconds", "1", "--port", "0", env={"TMPDIR": str(temporary)}).ok()
    assert list(temporary.iterdir()) == []
    assert not list(tmp_path.glob("*.db"))


def on_a_terminal(programs, folder, columns, rows):
    """Everything that `demo` writes to a terminal of this size."""
    primary, secondary = pty.openpty()
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    demo = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", program("deliverd"), "demo", "--seconds",
                             "3", "--rate", "100", "--port", "0"], stdin=secondary, stdout=secondary,
                            stderr=secondary, cwd=folder, env=programs.environment({"TERM": "xterm-256color"}))
    os.close(secondary)
    shown = b""
    end = time.monotonic() + 240
    try:
        while time.monotonic() < end:
            if not select.select([primary], [], [], 1)[0]:
                continue
            try:
                chunk = os.read(primary, 65536)
            except OSError:  # the other side is closed
                break
            shown += chunk
        assert demo.wait(120) == 0, shown.decode(errors="replace")
    finally:
        demo.kill()
        demo.wait(120)
        os.close(primary)
    return shown.decode()


def plain(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "")


def test_on_a_terminal_it_draws_a_live_view(programs, tmp_path):
    text = on_a_terminal(programs, tmp_path, 100, 30)
    assert len(re.findall(r"\x1b\[[0-9;?]*[A-Za-z]", text)) > 5, "the view is redrawn in place"
    for word in ("sent", "open", "dead", "lag", "last failures"):
        assert word in text
    check_totals(last_line(plain(text)))


@pytest.mark.parametrize("columns, rows", [(80, 24), (60, 15), (40, 8)])
def test_the_live_view_fits_the_terminal_and_leaves_it_as_it_was(programs, tmp_path, columns, rows):
    before, view = on_a_terminal(programs, tmp_path, columns, rows).split("\x1b[?1049h")
    view, after = view.split("\x1b[?1049l")
    assert "/metrics" in before and "\x1b[H" not in before
    frames = [plain(frame).split("\n") for frame in view.split("\x1b[H")[1:]]
    assert len(frames) > 2
    for frame in frames:
        assert len(frame) <= rows and max(map(len, frame)) <= columns, frame
        assert any(line.startswith("  memories ") and " sent " in line for line in frame)
    assert "\x1b" not in after
    check_totals(last_line(plain(after)))
