"""What the figures were measured on."""

import os
import platform
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def _cpu_model():
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory_gib():
    kib = int(Path("/proc/meminfo").read_text(encoding="utf-8").split()[1])
    return round(kib / 1024 / 1024, 1)


def _commit():
    def git(*args):
        return subprocess.run(["git", "-C", ROOT, *args], capture_output=True, text=True, check=False).stdout.strip()

    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + ("+changes" if git("status", "--porcelain") else "")


def _filesystem(folder):
    done = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def describe(server):
    return {
        "cores": os.cpu_count(),
        "cpu": _cpu_model(),
        "memory_gib": _memory_gib(),
        "kernel": platform.release(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", "unknown"),
        "postgresql": server.query("postgres", "SHOW server_version")[0]["server_version"],
        "fsync": server.query("postgres", "SHOW fsync")[0]["fsync"],
        "filesystem": _filesystem(server.folder),
        "commit": _commit(),
    }
