"""Waits for a condition with a deadline, and reports what was missing if it fails."""

import threading
import time

PAUSE_SECONDS = 0.02
LONG_PAUSE_SECONDS = 0.1  # for expensive conditions, such as counting a large table
# Callers name a deadline that an idle machine never needs. Workers and compilers may share the machine, so the real one is
# longer, which costs nothing if the condition holds.
PATIENCE = 4


def wait_for(condition, deadline_seconds, what, pause_seconds=PAUSE_SECONDS):
    """Returns the first truthy result of `condition()`; AssertionError naming `what` if there is none in PATIENCE deadlines.

    `what` is text, or a function that is called on failure and returns the text.
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
