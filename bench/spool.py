#!/usr/bin/env python3
"""A spool of two million entries (1 GB): how long list, retry, cleanup and add take, and how much memory they need.

    bench/spool.py [--entries N] [--program build/deliverd] [--folder DIR]

Every entry is due. Its endpoint is a private address, which a retry refuses without a connection, so only the work on the
file is measured. Prints one line per step; exit status 1 if a step needs 100 MB or more.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MOST_MEGABYTES = 100
OLD = 1_700_000_000_000


def write(path, entries):
    filling = "x" * 300
    with open(path, "w", encoding="utf-8", buffering=1 << 20) as file:
        for number in range(entries):
            file.write(f'{{"jobId":"hook-{OLD}-{number:08d}","data":{{"hook":{{"n":{number},"text":"{filling}"}},'
                       f'"endpoint":"http://127.0.0.1:9/hooks"}},"attemptsMade":{1 + number % 4},"maxAttempts":5,'
                       f'"timestamp":{OLD},"nextRetry":{OLD + number * 7919 % 1000003},'
                       f'"error":{{"message":"503","code":"503"}},"state":"pending"}}\n')


def measure(program, *words):
    """The time and peak memory of one command, in seconds and megabytes."""
    began = time.monotonic()
    child = subprocess.Popen([program, "spool", *words], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return time.monotonic() - began, usage.ru_maxrss / 1024, child.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=2_000_000)
    parser.add_argument("--program", default="build/deliverd")
    parser.add_argument("--folder", default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "hooks.jsonl"
        file = ["--file", str(path)]
        add = ["add", *file, "--endpoint", "http://127.0.0.1:9/", "--data", "{}"]
        steps = [("append", add), ("list", ["list", *file, "--json"]), ("retry, all due", ["retry", *file]),
                 ("cleanup", ["cleanup", *file])]
        print(f"append to nothing    {measure(arguments.program, *add)[0]:8.2f} s")
        write(path, arguments.entries)
        print(f"{path.stat().st_size / 1e9:.2f} GB in {arguments.entries} entries", flush=True)
        worst = 0
        for name, words in steps:
            seconds, megabytes, status = measure(arguments.program, *words)
            worst = max(worst, megabytes)
            print(f"{name:<20} {seconds:8.2f} s {megabytes:8.1f} MB  exit {status}", flush=True)
    return 0 if worst < MOST_MEGABYTES else 1


if __name__ == "__main__":
    sys.exit(main())
