#!/usr/bin/env python3
"""Adds up JUnit files (ctest's and pytest's) to one line: `N passed, N failed, N skipped`.

Before it, each failed test by name with the end of what it said: whoever has only the end of a log sees why.
Exit status 1 when a test failed, when a file is missing or unreadable, or when there was no test at all.
"""

import sys
import xml.etree.ElementTree as xml


FAILURE_LINES = 12  # of each failed test
FAILURE_LINE_CHARACTERS = 200


def said_by(case):
    """The last lines of what a failed test printed: pytest's are in the failure, ctest's in system-out."""
    texts = [child.text or "" for child in case if child.tag in ("failure", "error")]
    text = next((text for text in texts if text.strip()), None) or case.findtext("system-out") or ""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return [line[:FAILURE_LINE_CHARACTERS] for line in lines[-FAILURE_LINES:]]


def counts_of(path):
    """(passed, failed, skipped) in one file; prints the failed."""
    passed = failed = skipped = 0
    for case in xml.parse(path).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        status = case.get("status")  # ctest's: run, fail, notrun, disabled
        if kinds & {"failure", "error"} or status == "fail":
            failed += 1
            name = ".".join(dict.fromkeys(part for part in (case.get("classname"), case.get("name")) if part))
            print(f"failed: {name} ({path})", *said_by(case), sep="\n    ")
        elif "skipped" in kinds or status in ("notrun", "disabled"):
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def main(paths):
    totals = [0, 0, 0]
    unreadable = 0
    for path in paths:
        try:
            totals = [total + count for total, count in zip(totals, counts_of(path))]
        except (OSError, xml.ParseError) as error:
            unreadable += 1
            print(f"test_totals: {path}: no results ({error}); its tests count as one failure", file=sys.stderr)
    passed, failed, skipped = totals[0], totals[1] + unreadable, totals[2]
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed + skipped else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
