"""Kills, stops and starts relays and their broker while events are written. A random seed chooses when and which."""

import time

from harness.events import Disturbance, open_events
from harness.waiting import LONG_PAUSE_SECONDS, wait_for

LONGEST_ABSENCE_SECONDS = 3  # of a killed relay; longer than a lease, so that others take over


class Chaos:
    """Faults happen at points of progress, so that their number does not depend on the machine's speed.

    `server` has kill9() and start(), or is None. If it is the store's own server, no relay is started while it is down,
    and a relay that ended because it could not connect is started again. The relays are Relays, with leases of
    `lease_seconds`. `deadline_seconds` applies to each wait between two faults.
    """

    def __init__(self, rng, store, writers, relays, server, lease_seconds, deadline_seconds):
        self._rng, self._store, self._writers, self._relays = rng, store, writers, relays
        self._server, self._lease = server, lease_seconds
        self._deadline_seconds = deadline_seconds
        self._is_store = server is not None and server is getattr(store, "server", None)
        self._later = {}  # slot → (when, what to do): the relay is away until then
        self.disturbances = []

    def run(self, kills, outages, pauses):
        blows = ["kill"] * kills + ["outage"] * outages + ["pause"] * pauses
        self._rng.shuffle(blows)
        points = sorted(self._rng.uniform(0.02, 0.95) for _ in blows)
        for point, blow in zip(points, blows):
            self._wait_for_progress(int(point * self._writers.total))
            getattr(self, "_" + blow)()
        self._wait_for_progress(self._writers.total)
        self._wait(lambda: not self._later, "the last relay to be back")

    def _wait_for_progress(self, count):
        self._wait(lambda: self._published() >= count, f"{count} events to be published")

    def _published(self):
        self._writers.done()
        written = self._writers.written
        self._writers.published = written - open_events(self._store)
        return self._writers.published

    def _wait(self, condition, what):
        def reached():
            self._bring_back()
            self._relays.check(away=self._later)
            return condition()

        wait_for(reached, self._deadline_seconds, lambda: f"{what}; {self._writers.written} were written, "
                 f"{open_events(self._store)} are open; so far {[d.what for d in self.disturbances]}",
                 LONG_PAUSE_SECONDS)

    def _bring_back(self):
        if self._is_store:
            for slot in self._relays.refused():
                self._later.setdefault(slot, (0, lambda slot=slot: self._relays.start(slot)))
        for slot, (when, back) in list(self._later.items()):
            if time.monotonic() >= when:
                del self._later[slot]
                back()

    def _someone(self):
        """A running relay; None while none runs."""
        there = [slot for slot in range(len(self._relays.slots)) if slot not in self._later]
        return self._rng.choice(there) if there else None

    def _kill(self):
        slot = self._someone()
        if slot is None:
            return self._wait(lambda: self._someone() is not None, "a relay to be back") or self._kill()
        self._relays.kill(slot)
        back = time.monotonic() + self._rng.choice([0, self._rng.uniform(0, LONGEST_ABSENCE_SECONDS)])
        self._later[slot] = (back, lambda: self._relays.start(slot))

    def _pause(self):
        slot = self._someone()
        if slot is None:
            return
        paused_at = time.time()
        self._relays.pause(slot)
        back = time.monotonic() + self._lease * self._rng.uniform(1.2, 2)
        self._later[slot] = (back, lambda: self._relays.resume(slot, paused_at))

    def _outage(self):
        began = time.time()
        self._server.kill9()
        killed_meanwhile = self._rng.random() < 0.5
        until = time.monotonic() + self._rng.uniform(0, 2)
        try:
            if self._is_store:
                wait_for(lambda: time.monotonic() >= until, LONGEST_ABSENCE_SECONDS, "the outage to end")
            else:
                self._wait(lambda: time.monotonic() >= until, "the outage to end")
            if killed_meanwhile and self._someone() is not None:
                self._kill()
        finally:
            self._server.start()
        self.disturbances.append(Disturbance("the server was away", began, time.time()))
