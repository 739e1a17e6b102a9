#!/usr/bin/env python3
"""Adds up JUnit files (ctest's and pytest's) to one line: `N passed, N failed, N skipped`.

Exit status 1 when a test failed, when a file is missing or unreadable, or when there was no test at all.
"""

import sys
import xml.etree.ElementTree as xml


def counts_of(path):
    """(passed, failed, skipped) in one file."""
    passed = failed = skipped = 0
    for case in xml.parse(path).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        status = case.get("status")  # ctest's: run, fail, notrun, disabled
        if kinds & {"failure", "error"} or status == "fail":
            failed += 1
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
