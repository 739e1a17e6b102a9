"""Waiting for a condition with a deadline, and saying what was missing when it did not come."""

import threading
import time

PAUSE_SECONDS = 0.02


def wait_for(condition, deadline_seconds, what):
    """The first truthy answer of `condition()`; AssertionError naming `what` when there is none in time.

    `what` is text, or a function called on failure that tells what stood there instead.
    """
    end = time.monotonic() + deadline_seconds
    pause = threading.Event()
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() >= end:
            told = what() if callable(what) else what
            raise AssertionError(f"not within {deadline_seconds} s: {told} (last seen: {answer!r})")
        pause.wait(PAUSE_SECONDS)
