"""What the tests of the event outbox share: writing, relaying and checking events.

The payload of an event has its number `n` within its aggregate (1, 2, 3, …), which shows a receiver the order.
"""

import collections
import contextlib
import datetime
import json
import os
import random
import signal
import threading
import time
from dataclasses import dataclass

import psycopg

from harness.stores import write_config
from harness.waiting import LONG_PAUSE_SECONDS, wait_for

LANE = "events"
TYPE = "OrderChanged"
RECONNECT_SECONDS = 30
SEED_VARIABLE = "DELIVERD_CHAOS_SEED"


def seeded():
    """A random generator whose seed is printed. The environment can set it, to repeat a run's choices."""
    seed = int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(10**9))
    print(f"{SEED_VARIABLE}={seed}")
    return random.Random(seed)


def aggregate_name(number):
    return f"order-{number:04}"


@dataclass(frozen=True)
class Arrival:
    """A message as a consumer saw it. Lists are in order of arrival, at least within an aggregate."""

    aggregate: str
    n: int
    message_id: str
    at: float | None = None  # when it was sent, by the wall clock, where the broker keeps that


@dataclass(frozen=True)
class Disturbance:
    """A fault that may duplicate unrecorded events, from `start` to `end` by the wall clock."""

    what: str
    start: float
    end: float


# --- writing --------------------------------------------------------------------------------------------------------


class Writers:
    """Connections that write events in transactions, some of them rolled back. Each has its own aggregates.

    `ahead`: they stop while more than so many written events were not reported as published (`published`).
    """

    def __init__(self, url, rng, aggregates, events_each, connections=4, ahead=10_000):
        self._url, self._each, self._ahead = url, events_each, ahead
        self.total = aggregates * events_each
        self.published = 0
        self._lock = threading.Lock()
        self._written = 0
        self._stop = threading.Event()
        self._failure = None
        names = [aggregate_name(number) for number in range(aggregates)]
        self.expected = dict.fromkeys(names, events_each)
        self._threads = [threading.Thread(target=self._run, args=(names[part::connections], rng.randrange(2**32)),
                                          daemon=True) for part in range(connections)]
        for thread in self._threads:
            thread.start()

    @property
    def written(self):
        return self._written

    def done(self):
        if self._failure is not None:
            raise AssertionError("a writer failed") from self._failure
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self):
        """Ends the writers after their current transaction. Afterwards, `expected` is what they have written."""
        self._stop.set()
        for thread in self._threads:
            thread.join(RECONNECT_SECONDS)
        assert self.done()

    def _run(self, names, seed):
        try:
            self._write_all(names, random.Random(seed))
        except BaseException as failure:  # shown by done()
            self._failure = failure

    def _write_all(self, names, rng):
        written = dict.fromkeys(names, 0)
        connection = self._connect()
        while names and not self._stop.is_set():
            while self._written - self.published > self._ahead and not self._stop.wait(0.01):
                pass
            chosen = rng.sample(names, min(len(names), rng.randint(1, 4)))
            rows = [(name, written[name] + i) for name in chosen
                    for i in range(1, 1 + min(rng.randint(1, 8), self._each - written[name]))]
            kept = rng.random() > 0.1
            try:
                self._transaction(connection, rows, kept)
            except psycopg.OperationalError:
                connection = self._connect()
                kept = self._is_there(connection, rows[0])
            if kept:
                for name, n in rows:
                    written[name] = n
                with self._lock:
                    self._written += len(rows)
                names = [name for name in names if written[name] < self._each]
        connection.close()
        with self._lock:
            self.expected.update(written)

    def _connect(self):
        def connected():
            with contextlib.suppress(psycopg.OperationalError):
                return psycopg.connect(self._url, connect_timeout=2)
            return None

        return wait_for(connected, RECONNECT_SECONDS, "PostgreSQL to let a writer in")

    @staticmethod
    def _transaction(connection, rows, kept):
        names, numbers = zip(*rows)
        connection.execute(
            "SELECT deliverd.add_event(i.name, %s, jsonb_build_object('n', i.n, 'kept', %s::bool))"
            " FROM unnest(%s::text[], %s::int[]) AS i (name, n)", (TYPE, kept, list(names), list(numbers)))
        connection.commit() if kept else connection.rollback()

    @staticmethod
    def _is_there(connection, row):
        """Only the table shows how a commit without an answer ended."""
        found = connection.execute("SELECT 1 FROM outbox WHERE aggregate_id = %s AND (payload->>'n')::int = %s",
                                   row).fetchone()
        connection.commit()
        return found is not None


def write_events(store, aggregates, events_each, first=1):
    """Writes `events_each` events for each aggregate in turn, in one transaction, on either store."""
    rows = [(aggregate_name(number), TYPE, json.dumps({"n": n, "kept": True}))
            for n in range(first, first + events_each) for number in range(aggregates)]
    sql = "INSERT INTO outbox (aggregate_id, event_type, payload) VALUES (?, ?, ?)"
    if store.kind == "postgres":
        with psycopg.connect(store.url) as connection, connection.cursor() as cursor:
            cursor.executemany(sql.replace("?", "%s"), rows)
        return
    with contextlib.closing(store._connect()) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(sql, rows)
        connection.execute("COMMIT")


# --- relaying -------------------------------------------------------------------------------------------------------


def events_config(folder, store, sink, name="deliverd.yaml", **lane):
    return write_config(folder, store, name=name, lanes={LANE: {"outbox": "events", "sink": sink} | lane})


def start_relay(programs, config, worker_id, **how):
    return programs.start("worker", "--lane", LANE, "--loop", "--worker-id", worker_id, "--config", config, **how)


class Relays:
    """Processes that run the lane, each in a slot. A killed one is followed by another with a new name.

    `seen_late_seconds`: how much later than it was sent a message may be seen, where Arrival.at is when it was seen.
    """

    def __init__(self, programs, config, count, seen_late_seconds=0):
        self._programs, self._config, self._seen_late = programs, config, seen_late_seconds
        self._generation = 0
        self.slots = [None] * count
        self.started = []
        self.disturbances = []
        for slot in range(count):
            self.start(slot)

    def start(self, slot):
        self._generation += 1
        self.slots[slot] = start_relay(self._programs, self._config, f"relay-{slot}-{self._generation}")
        self.started.append(self.slots[slot])

    def kill(self, slot):
        began = time.time()
        self.slots[slot].kill9()
        self.disturbances.append(Disturbance(f"relay {slot} killed", began, time.time() + self._seen_late))

    def pause(self, slot):
        assert self.slots[slot].alive(), self.slots[slot].stderr[-2000:]
        self.slots[slot].send(signal.SIGSTOP)

    def resume(self, slot, paused_at):
        self.slots[slot].send(signal.SIGCONT)
        self.disturbances.append(Disturbance(f"relay {slot} paused", paused_at, time.time()))

    def refused(self):
        """The slots of processes that ended at once because the database was down."""
        return [slot for slot, relay in enumerate(self.slots)
                if relay.status() == 1 and "worker started" not in relay.stderr]

    def check(self, away=()):
        """Asserts that none ended by itself."""
        for slot, relay in enumerate(self.slots):
            assert slot in away or relay.alive(), f"it ended with {relay.status()}: {relay.stderr[-2000:]}"

    def stop(self):
        for relay in self.slots:
            relay.wait_for_stderr("worker started")
            relay.terminate()
        ended = [relay.wait() for relay in self.slots]
        assert ended == [0] * len(self.slots), ended

    def lost_leases(self, lease_seconds):
        """The relays that report lost shards. Nothing else may keep causing duplicates."""
        found = []
        for relay in self.started:
            for line in relay.stderr.splitlines():
                if '"lost":' not in line:
                    continue
                said = json.loads(line)
                if said["lost"] > 0:
                    at = moment(said)
                    # A stalled relay reports this only after it wakes up.
                    found.append(Disturbance(f"{relay.label} lost {said['lost']} shards", at - 10 * lease_seconds, at))
        return found


def moment(log_line):
    return datetime.datetime.fromisoformat(log_line["ts"].replace("Z", "+00:00")).timestamp()


def open_events(store):
    return store.query("SELECT count(*) AS n FROM outbox WHERE NOT published AND dead_at IS NULL")[0]["n"]


def shards_by_owner(store):
    table = "deliverd.shards" if store.kind == "postgres" else "deliverd_shards"
    rows = store.query(f"SELECT owner, count(*) AS n FROM {table} WHERE owner IS NOT NULL GROUP BY owner")
    return {row["owner"].rpartition("-")[0]: row["n"] for row in rows}  # without the unique part of the name


def wait_until_published(store, deadline_seconds):
    wait_for(lambda: open_events(store) == 0, deadline_seconds, lambda: f"{open_events(store)} events to be published",
             LONG_PAUSE_SECONDS)


# --- arrivals -------------------------------------------------------------------------------------------------------


def check_table(store, expected):
    """Asserts that the table has exactly the expected events, all published, none dead. Returns its rows."""
    n = "(payload->>'n')" if store.kind == "postgres" else "json_extract(payload, '$.n')"
    rows = store.query(f"SELECT aggregate_id, CAST({n} AS int) AS n, event_id, published, dead_at, published_at"
                       " FROM outbox ORDER BY id")
    numbers = collections.defaultdict(list)
    for row in rows:
        numbers[row["aggregate_id"]].append(row["n"])
        assert row["published"] and row["published_at"] and row["dead_at"] is None, row
    assert numbers == {name: list(range(1, count + 1)) for name, count in expected.items() if count}
    return rows


def _known(store, arrivals, aggregate):
    """Everything known about an aggregate, for the failure message."""
    came = "".join(f"\n{arrival}" for arrival in arrivals if arrival.aggregate == aggregate)
    rows = store.query("SELECT id, payload, published_at, retry_count, last_error FROM outbox WHERE aggregate_id = ?"
                       " ORDER BY id", aggregate)
    trail = store.query("SELECT * FROM outbox_audit WHERE outbox_id IN (SELECT id FROM outbox WHERE aggregate_id = ?)",
                        aggregate)
    return f"{aggregate}:{came}\n" + "\n".join(map(str, rows + trail))


def check_arrivals(store, arrivals, expected):
    """Asserts: complete, in order, and once each for a consumer that stores message ids. Returns duplicates: pairs of first and
    repeated Arrival."""
    rows = check_table(store, expected)
    first, doubles, order = {}, [], collections.defaultdict(list)
    for arrival in arrivals:
        if arrival.message_id in first:
            doubles.append((first[arrival.message_id], arrival))
        else:
            first[arrival.message_id] = arrival
            order[arrival.aggregate].append(arrival.n)
    wrong = [name for name, numbers in order.items() if numbers != sorted(numbers)]
    assert not wrong, f"{len(wrong)} aggregates are out of order, such as {_known(store, arrivals, wrong[0])}"
    missing = {(row["aggregate_id"], row["n"]) for row in rows if str(row["event_id"]) not in first}
    assert not missing, f"{len(missing)} events are lost, such as {sorted(missing)[:5]}"
    assert order == {name: list(range(1, count + 1)) for name, count in expected.items() if count}
    assert {message_id: (arrival.aggregate, arrival.n) for message_id, arrival in first.items()} == {
        str(row["event_id"]): (row["aggregate_id"], row["n"]) for row in rows}
    return doubles


def check_doubles(store, doubles, disturbances):
    """Asserts that only events that had arrived but were not recorded at a fault were duplicated."""
    recorded = {str(row["event_id"]): row["published_at"].timestamp()
                for row in store.query("SELECT event_id, published_at FROM outbox")}
    for first, again in doubles:
        at = recorded[first.message_id]
        near = [d for d in disturbances if at >= d.start and (first.at is None or first.at <= d.end)]
        assert near, f"{first} came again as {again}, recorded at {at}, without a cause among {disturbances}"
