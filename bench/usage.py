"""What a process uses, as the kernel counts it."""

import threading
from pathlib import Path


def _status_kib(pid, field):
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    return 0


def resident_mib(pid):
    return _status_kib(pid, "VmRSS") / 1024


def cpu_seconds(pid):
    """Time on a core so far, all threads that live. Finer than the clock ticks of /proc/PID/stat."""
    return sum(int(tasks.read_text(encoding="utf-8").split()[0])
               for tasks in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


class Watch:
    """Follows a process until it ends: its highest resident memory.

    Asked from outside, because ru_maxrss of a started process begins with what its parent had.
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
