"""A committed event is published and a rolled-back one never: random transactions, on both stores, relayed meanwhile."""

import json
import random
import sqlite3
import time

import psycopg
import pytest
from harness.event_lanes import always_ok, events_config, start_relay, wait_for_all_published
from harness.waiting import wait_for

SEEDS = (1, 2, 3)
TRANSACTIONS = 150
CLI_EVERY = 25  # not too many, because each starts a program
AGGREGATES = 8
MOST_WRITERS = 3  # transactions open at once, PostgreSQL only


class Expected:
    """What was committed, each aggregate's events in order."""

    def __init__(self):
        self.committed = {}
        self.rolled_back = []

    def commit(self, written):
        for aggregate, number in written:
            self.committed.setdefault(aggregate, []).append(number)


class Transaction:
    """A transaction of the application: some events, some of them after a savepoint that is rolled back."""

    def __init__(self, connection, add, rng, next_number, aggregates):
        self._connection = connection
        self._add = add
        self._rng = rng
        self._next_number = next_number
        self._aggregates = aggregates
        self.kept, self.lost = [], []
        connection.execute("BEGIN")

    def step(self):
        if self._rng.random() < 0.25:
            self._connection.execute("SAVEPOINT s")
            behind = [self._event() for _ in range(self._rng.randint(1, 3))]
            if self._rng.random() < 0.6:
                self._connection.execute("ROLLBACK TO SAVEPOINT s")
                self.lost += behind
            else:
                self.kept += behind
            self._connection.execute("RELEASE SAVEPOINT s")
        else:
            self.kept.append(self._event())

    def _event(self):
        aggregate, number = self._rng.choice(self._aggregates), self._next_number()
        self._add(self._connection, self._rng, aggregate, json.dumps({"number": number}))
        return aggregate, number

    def end(self, expected):
        if self._rng.random() < 0.3:
            self._connection.execute("ROLLBACK")
            expected.rolled_back += [number for _, number in self.kept + self.lost]
        else:
            self._connection.execute("COMMIT")
            expected.commit(self.kept)
            expected.rolled_back += [number for _, number in self.lost]


def add_to_postgres(connection, rng, aggregate, payload):
    if rng.random() < 0.5:
        connection.execute("SELECT deliverd.add_event(%s, 'Counted', %s)", (aggregate, payload))
    else:
        connection.execute("INSERT INTO outbox (aggregate_id, event_type, payload) VALUES (%s, 'Counted', %s)",
                           (aggregate, payload))


def add_to_sqlite(connection, _rng, aggregate, payload):
    connection.execute("INSERT INTO outbox (aggregate_id, event_type, payload) VALUES (?, 'Counted', ?)",
                       (aggregate, payload))


def connect(store):
    if store.kind == "postgres":
        return psycopg.connect(store.url, autocommit=True)
    return sqlite3.connect(store.path, timeout=30, isolation_level=None)


def write_at_random(store, rng, programs):
    """Each open transaction has its own aggregates, like writers that lock what they change. Only then is a
    table's order meaningful."""
    expected, number = Expected(), iter(range(1, 1_000_000))
    writers = MOST_WRITERS if store.kind == "postgres" else 1
    add = add_to_postgres if store.kind == "postgres" else add_to_sqlite
    connections = [connect(store) for _ in range(writers)]
    groups = [[f"a{n}" for n in range(AGGREGATES) if n % writers == mine] for mine in range(writers)]
    open_ones, begun = {}, 0
    while begun < TRANSACTIONS or open_ones:
        mine = rng.randrange(writers)
        if mine not in open_ones:
            if begun == TRANSACTIONS:
                continue
            begun += 1
            open_ones[mine] = Transaction(connections[mine], add, rng, lambda: next(number), groups[mine])
        elif rng.random() < 0.6:
            open_ones[mine].step()
        else:
            open_ones.pop(mine).end(expected)
            if rng.randrange(CLI_EVERY) == 0:
                add_by_command(store, programs, rng.choice(groups[mine]), next(number), expected)
    for connection in connections:
        connection.close()
    return expected


def add_by_command(store, programs, aggregate, number, expected):
    programs.run("outbox", "add", "--aggregate", aggregate, "--type", "Counted", "--payload",
                 json.dumps({"number": number}), "--database", store.url).ok()
    expected.commit([(aggregate, number)])


def arrived_at(receiver):
    found = {}
    for call in receiver.calls:
        found.setdefault(call.headers["x-aggregate-id"], []).append(call.body["number"])
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_what_arrives_is_what_was_committed(store, programs, receiver, tmp_path, seed):
    config = events_config(tmp_path, store, {"type": "http", "url": always_ok(receiver).url})
    start_relay(programs, config)
    expected = write_at_random(store, random.Random(seed), programs)
    wait_for_all_published(store)
    assert sum(map(len, expected.committed.values())) > 100 and len(expected.rolled_back) > 50
    assert arrived_at(receiver) == expected.committed
    assert set(receiver.times().values()) == {1}, "nothing failed, so nothing arrived twice"


def test_what_is_not_committed_yet_does_not_arrive(postgres, programs, receiver, tmp_path):
    config = events_config(tmp_path, postgres, {"type": "http", "url": always_ok(receiver).url})
    start_relay(programs, config)
    with psycopg.connect(postgres.url) as connection:
        connection.execute("SELECT deliverd.add_event('late', 'Counted', '{\"number\": 1}')")
        for number in (2, 3):
            postgres.query("SELECT deliverd.add_event('early', 'Counted', ?)", json.dumps({"number": number}))
        wait_for(lambda: receiver.count() == 2, 20, "those committed")
        assert arrived_at(receiver) == {"early": [2, 3]}
    wait_for(lambda: receiver.count() == 3, 20, "the event committed late, after events with higher ids were read")
    assert arrived_at(receiver)["late"] == [1]


def test_a_writers_events_stay_in_order_when_its_transaction_was_long(postgres, programs, receiver, tmp_path):
    """The aggregate's writers follow one another, as with a lock on its row. The order must hold even if other events
    with higher ids were read in between, and if reading the whole table is slow: here thousands of rows wait behind
    a dead one."""
    postgres.query("INSERT INTO outbox (aggregate_id, event_type, payload, dead_at) VALUES ('stuck', 'T', '0', now())")
    postgres.query("INSERT INTO outbox (aggregate_id, event_type, payload) SELECT 'stuck', 'T', '0'"
                   " FROM generate_series(1, 30000)")
    start_relay(programs, events_config(tmp_path, postgres, {"type": "http", "url": always_ok(receiver).url},
                                        lane={"on_dead": "block"}))
    numbers = iter(range(1, 1000))
    expected = []

    def other(connection):
        before = receiver.count()
        connection.execute("SELECT deliverd.add_event('other', 'Counted', '{\"number\": 0}')")
        wait_for(lambda: receiver.count() > before, 20, "an event of another aggregate, read past the open one")

    with psycopg.connect(postgres.url, autocommit=True) as connection, \
            psycopg.connect(postgres.url, autocommit=True) as another:
        for _ in range(5):
            first, second = next(numbers), next(numbers)
            connection.execute(f"BEGIN; SELECT deliverd.add_event('one', 'Counted', '{{\"number\": {first}}}')")
            began = time.monotonic()
            while time.monotonic() < began + 0.5:
                other(another)
            connection.execute(f"COMMIT; BEGIN; SELECT deliverd.add_event('one', 'Counted', '{{\"number\": {second}}}');"
                               " COMMIT")
            expected += [first, second]
            wait_for(lambda: len(arrived_at(receiver).get("one", [])) == len(expected), 20, "both")
    assert arrived_at(receiver)["one"] == expected
