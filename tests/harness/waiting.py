"""Waits for a condition with a deadline, and reports what was missing if it fails."""

import threading
import time

PAUSE_SECONDS = 0.02
LONG_PAUSE_SECONDS = 0.1  # for looks that cost much, such as counting a large table
# Callers name a deadline that a quiet machine never needs. Several workers and compilers share one: a longer deadline
# costs nothing when the condition holds.
PATIENCE = 4


def wait_for(condition, deadline_seconds, what, pause_seconds=PAUSE_SECONDS):
    """Returns the first truthy result of `condition()`; AssertionError naming `what` if there is none in PATIENCE deadlines.

    `what` is text, or a function called on failure that tells what stood there instead.
    """
    patience_seconds = PATIENCE * deadline_seconds
    end = time.monotonic() + patience_seconds
    never = threading.Event()
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() >= end:
            reported = what() if callable(what) else what
            raise AssertionError(f"not within {patience_seconds:g} s: {reported} (last seen: {answer!r})")
        never.wait(pause_seconds)
