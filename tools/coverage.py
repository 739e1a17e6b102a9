#!/usr/bin/env python3
"""Prints which share of each room's lines the unit tests ran, from the profiles that `./dev coverage` left.

    tools/coverage.py BUILD_DIR      needs llvm-profdata-19 and llvm-cov-19
"""

import collections
import json
import subprocess
import sys
from pathlib import Path

DEADLINE_SECONDS = 600


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=DEADLINE_SECONDS).stdout


def room_of(name):
    return name.removeprefix("src/").rpartition("/")[0]


def is_product(name):
    return name.startswith("src/") and not name.endswith("_test.cc") and not any(
        part in name for part in ("/testing/", "/conformance/"))


def main(arguments):
    build = Path(arguments[0]).resolve()
    source = build.parent.parent
    merged = build / "merged.profdata"
    profiles = sorted(str(path) for path in (build / "profiles").glob("*.profraw"))
    if not profiles:
        sys.exit(f"no profiles in {build / 'profiles'}: run ./dev coverage")
    run("llvm-profdata-19", "merge", "-sparse", "-o", str(merged), *profiles)
    programs = sorted(str(path) for path in build.glob("deliverd_*_test"))
    objects = [part for program in programs[1:] for part in ("-object", program)]
    exported = json.loads(run("llvm-cov-19", "export", "-summary-only", f"-instr-profile={merged}", programs[0], *objects))
    rooms = collections.defaultdict(lambda: [0, 0])
    for entry in exported["data"][0]["files"]:
        # The compiler wrote paths relative to the checkout or, in a batch of sources, to the build folder, so that its
        # cache serves every checkout.
        name = entry["filename"].removeprefix(f"{source}/").removeprefix(f"{build.relative_to(source)}/")
        if is_product(name):
            rooms[room_of(name)][0] += entry["summary"]["lines"]["covered"]
            rooms[room_of(name)][1] += entry["summary"]["lines"]["count"]
    for room, (covered, count) in sorted(rooms.items()):
        print(f"{100 * covered / count:6.1f} %  {room:30} {covered:6} of {count}")
    covered, count = (sum(numbers) for numbers in zip(*rooms.values(), strict=True))
    print(f"{100 * covered / count:6.1f} %  {'all rooms':30} {covered:6} of {count}")


if __name__ == "__main__":
    main(sys.argv[1:])
