"""Waiting for a condition with a deadline, and saying what was missing when it did not come."""

import threading
import time

PAUSE_SECONDS = 0.02
LONG_PAUSE_SECONDS = 0.1  # for looks that cost much, such as counting a large table
# Callers name a deadline that a quiet machine never needs. Several workers and compilers share one: a longer deadline
# costs nothing when the condition holds.
PATIENCE = 4


def wait_for(condition, deadline_seconds, what, pause_seconds=PAUSE_SECONDS):
    """The first truthy answer of `condition()`; AssertionError naming `what` when there is none in PATIENCE deadlines.

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
            told = what() if callable(what) else what
            raise AssertionError(f"not within {patience_seconds:g} s: {told} (last seen: {answer!r})")
        never.wait(pause_seconds)
