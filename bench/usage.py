"""What a process uses, as the kernel counts it."""

import os
import threading
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def _status_kib(pid, field):
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    return 0


def resident_mib(pid):
    return _status_kib(pid, "VmRSS") / 1024


def cpu_seconds(pid):
    """User and system time so far, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


class Watch:
    """Follows a process until it ends: its highest resident memory and its CPU time."""

    PAUSE_SECONDS = 0.05

    def __init__(self, pid):
        self.peak_mib = 0.0
        self.cpu_seconds = 0.0
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self):
        while not self._ended.wait(self.PAUSE_SECONDS):
            try:
                self.peak_mib = max(self.peak_mib, _status_kib(self._pid, "VmHWM") / 1024)
                self.cpu_seconds = max(self.cpu_seconds, cpu_seconds(self._pid))
            except (OSError, IndexError, ValueError):
                return

    def stop(self):
        self._ended.set()
        self._thread.join(5)
