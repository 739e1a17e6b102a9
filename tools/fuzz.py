#!/usr/bin/env python3
"""Builds and runs the fuzz targets: all, or those named.

A target is tests/fuzz/NAME_fuzz.cc; its seeds are in tests/fuzz/corpus/NAME. A run keeps useful inputs in
build/fuzz/NAME/corpus for the next run. It writes an input that fails to build/fuzz/NAME and prints the command that
repeats it. Exit status 1 if a target failed.
"""

import argparse
import concurrent.futures
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "tests" / "fuzz"
PROGRAMS = ROOT / "build" / "asan"
KEPT = ROOT / "build" / "fuzz"
LIMITS = ["-timeout=10", "-rss_limit_mb=2048", "-max_len=4096"]  # seconds and bytes of one input
SHOWN_LINES = 40  # of a failed target's output


def options_of(arguments, names):
    parser = argparse.ArgumentParser(prog="./dev fuzz", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"targets to run; without any, all: {', '.join(names)}")
    parser.add_argument("--seconds", type=int, default=10, help="longest time per target, in seconds (10)")
    parser.add_argument("--runs", type=int, default=-1, help="most inputs per target (no limit)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers; 0, the default, chooses one")
    parser.add_argument("--grow", action="store_true",
                        help="afterwards add inputs to tests/fuzz/corpus that reach code which no seed reaches")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in names:
            parser.error(f"unknown target '{name}'; the targets are {', '.join(names)}")
    if options.seconds < 1:
        parser.error("--seconds must be 1 or more")
    return options


def build(names):
    jobs = os.environ.get("DELIVERD_JOBS") or str(os.cpu_count())
    programs = [f"{name}_fuzz" for name in names]
    return subprocess.run(["cmake", "--build", PROGRAMS, "--parallel", jobs, "--target", *programs],
                          stdout=sys.stderr, check=False).returncode == 0


def run(name, options):
    """Returns whether all inputs passed. Prints one line, or the failure."""
    folder = KEPT / name
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    words = SOURCES / f"{name}.dict"
    dictionary = [f"-dict={words}"] if words.exists() else []
    program = PROGRAMS / f"{name}_fuzz"
    command = [program, *LIMITS, *dictionary, f"-max_total_time={options.seconds}", f"-runs={options.runs}",
               f"-seed={options.seed}", f"-artifact_prefix={folder}/", folder / "corpus", SOURCES / "corpus" / name]
    begin = time.monotonic()
    with (folder / "log.txt").open("w", encoding="utf-8") as log:
        status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder,
                                check=False).returncode
    took = time.monotonic() - begin
    said = (folder / "log.txt").read_text(encoding="utf-8", errors="replace")
    runs = re.findall(r"^#(\d+)\s", said, re.MULTILINE)
    print(f"{'passed' if status == 0 else 'FAILED'}  {name:20} {runs[-1] if runs else 0} inputs in {took:.0f} s", flush=True)
    if status != 0:
        show_failure(program, said)
    return status == 0


def show_failure(program, said):
    print(*said.splitlines()[-SHOWN_LINES:], sep="\n    ")
    written = re.findall(r"Test unit written to (\S+)", said)
    if written:
        symbols = f"ASAN_OPTIONS={shlex.quote(os.environ['ASAN_OPTIONS'])} " if "ASAN_OPTIONS" in os.environ else ""
        print(f"To run this input again:\n  {symbols}{shlex.quote(str(program))} {shlex.quote(written[-1])}", flush=True)


def grow(name):
    seeds = SOURCES / "corpus" / name
    before = len(list(seeds.iterdir()))
    merged = subprocess.run([PROGRAMS / f"{name}_fuzz", *LIMITS, "-merge=1", seeds, KEPT / name / "corpus"],
                            stdin=subprocess.DEVNULL, capture_output=True, check=False)
    print(f"{name}: {len(list(seeds.iterdir())) - before} new files in {seeds.relative_to(ROOT)}", flush=True)
    return merged.returncode == 0


def main(arguments):
    names = sorted(path.name.removesuffix("_fuzz.cc") for path in SOURCES.glob("*_fuzz.cc"))
    options = options_of(arguments, names)
    chosen = options.names or names
    if not build(chosen):
        print("fuzz: preset asan did not build; the errors are above", file=sys.stderr)
        return 1
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        passed = [name for name, fine in zip(chosen, pool.map(lambda name: run(name, options), chosen), strict=True) if fine]
    grown = [grow(name) for name in passed] if options.grow else []
    print(f"{len(passed)} of {len(chosen)} fuzz targets passed")
    return 0 if len(passed) == len(chosen) and all(grown) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
