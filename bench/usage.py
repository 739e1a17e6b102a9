"""What a process uses, as the kernel counts it."""

import os
import threading
import time
from pathlib import Path


def _status_kib(pid, field):
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    return 0


def resident_mib(pid):
    return _status_kib(pid, "VmRSS") / 1024


def cpu_seconds(pid):
    """CPU time so far of all running threads. Finer than the clock ticks of /proc/PID/stat."""
    return sum(int(tasks.read_text(encoding="utf-8").split()[0])
               for tasks in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


class Watch:
    """Follows a process until it ends: its highest resident memory.

    Read from /proc, because ru_maxrss of a started process begins with its parent's value.
    """

    PAUSE_SECONDS = 0.05

    def __init__(self, pid):
        self.peak_mib = 0.0
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self):
        while not self._ended.wait(self.PAUSE_SECONDS):
            try:
                self.peak_mib = max(self.peak_mib, _status_kib(self._pid, "VmHWM") / 1024)
            except OSError:
                return

    def stop(self):
        self._ended.set()
        self._thread.join(5)


def _ticks(pid):
    """Clock ticks of a process and of its children that have ended, and the id of its parent."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])), int(fields[1])


def _tree_ticks(pid):
    """The same with its running children, one level deep: a postmaster and its backends."""
    total = 0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            ticks, parent = _ticks(entry.name)
        except OSError:
            continue
        if int(entry.name) == pid or parent == pid:
            total += ticks
    return total


def _busy_ticks():
    fields = list(map(int, Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0].split()[1:]))
    return sum(fields) - fields[3] - fields[4]


class Cores:
    """How many cores PostgreSQL, Kafka and the whole machine keep busy, from here to stop()."""

    def __init__(self, postgres_pid, kafka_pid=None):
        self._pids = {"postgresql": postgres_pid} | ({"kafka": kafka_pid} if kafka_pid else {})
        self._begin, self._at = self._now(), time.monotonic()

    def _now(self):
        return {name: _tree_ticks(pid) for name, pid in self._pids.items()} | {"machine": _busy_ticks()}

    def stop(self):
        span = (time.monotonic() - self._at) * os.sysconf("SC_CLK_TCK")
        return {name: round((ticks - self._begin[name]) / span, 2) for name, ticks in self._now().items()}
