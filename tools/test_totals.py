#!/usr/bin/env python3
"""Adds up JUnit files (ctest's and pytest's) to one line: `N passed, N failed, N skipped`.

    tools/test_totals.py [--slowest N] [--may-be-missing] FILE…

Before that line, prints the name of each failed test with the end of its output, so that the end of a log says why.
FILE-again.xml, if it exists, has the second run of the failed tests of FILE.xml: a test that passed then is reported as
flaky, and still counts as failed.
Exit status 1 if a test failed, if a file is missing or unreadable, or if there was no test at all.
"""

import argparse
import sys
import xml.etree.ElementTree as xml
from dataclasses import dataclass
from pathlib import Path

FAILURE_LINES = 12  # of each failed test
FAILURE_LINE_CHARACTERS = 200


@dataclass
class Test:
    name: str
    outcome: str  # passed, failed, skipped
    seconds: float
    said: list


def said_by(case):
    """The last lines that a failed test printed: pytest's are in the failure, ctest's in system-out."""
    texts = [child.text or "" for child in case if child.tag in ("failure", "error")]
    text = next((text for text in texts if text.strip()), None) or case.findtext("system-out") or ""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return [line[:FAILURE_LINE_CHARACTERS] for line in lines[-FAILURE_LINES:]]


def test_of(case):
    kinds = {child.tag for child in case}
    status = case.get("status")  # ctest's: run, fail, notrun, disabled
    if kinds & {"failure", "error"} or status == "fail":
        outcome = "failed"
    else:
        outcome = "skipped" if "skipped" in kinds or status in ("notrun", "disabled") else "passed"
    name = ".".join(dict.fromkeys(part for part in (case.get("classname"), case.get("name")) if part))
    return Test(name, outcome, float(case.get("time") or 0), said_by(case) if outcome == "failed" else [])


def tests_in(path):
    return [test_of(case) for case in xml.parse(path).getroot().iter("testcase")]


def passed_again(path):
    """The names of the tests that failed and then passed."""
    try:
        again = tests_in(path.with_name(f"{path.stem}-again.xml"))
    except (OSError, xml.ParseError):
        return set()  # not run again, or not to the end
    return {test.name for test in again if test.outcome == "passed"} - {
        test.name for test in again if test.outcome == "failed"}


def show_failed(path, tests):
    """Prints the failed tests. A test may occur twice in a file: pytest reports teardown as a separate test case."""
    again = passed_again(path)
    for test in tests:
        if test.outcome == "failed":
            flaky = test.name in again
            print(f"{'flaky' if flaky else 'failed'}: {test.name} ({path})"
                  + (": failed, and passed when run again" if flaky else ""), *test.said, sep="\n    ")


def show_slowest(count, tests):
    """`tests` are (path, test)."""
    print(f"The {count} slowest tests:")
    for path, test in sorted(tests, key=lambda entry: -entry[1].seconds)[:count]:
        print(f"  {test.seconds:7.1f} s  {test.name} ({path.parent.name})")


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slowest", type=int, default=0, metavar="N", help="also list the N slowest tests")
    parser.add_argument("--may-be-missing", action="store_true", help="accept a missing file")
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args(arguments)
    found, unreadable = [], 0
    for path in options.files:
        if options.may_be_missing and not path.exists():
            continue
        try:
            tests = tests_in(path)
        except (OSError, xml.ParseError) as error:
            unreadable += 1
            print(f"test_totals: {path}: no results ({error}); its tests count as one failure", file=sys.stderr)
            continue
        show_failed(path, tests)
        found += [(path, test) for test in tests]
    if options.slowest:
        show_slowest(options.slowest, found)
    passed, failed, skipped = (sum(test.outcome == outcome for _, test in found)
                               for outcome in ("passed", "failed", "skipped"))
    failed += unreadable
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed + skipped else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
