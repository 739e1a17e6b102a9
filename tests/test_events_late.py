"""Slow writers: an event's transaction commits long after its id was assigned, and afterwards the same
writer writes the next event. Events of an aggregate that were written one after the other arrive in that order."""

import json
import threading

import psycopg
import pytest
from harness.events import TYPE, events_config, start_relay, wait_until_published
from harness.waiting import wait_for


class Crowd:
    """Many small transactions for other aggregates, so that the relay keeps reading."""

    def __init__(self, url):
        self._url = url
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self):
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._over.wait(0.02):
                connection.execute("INSERT INTO outbox (aggregate_id, event_type, payload)"
                                   " SELECT 'crowd-' || i, %s, '{}' FROM generate_series(1, 60) AS i", (TYPE,))

    def end(self):
        self._over.set()
        self._thread.join(20)


def numbers(relay, prefix):
    """What the console sink printed for aggregates with this prefix."""
    found = {}
    for line in relay.stdout.splitlines():
        message = json.loads(line) if line.startswith('{"id"') else {"key": ""}
        if message["key"].startswith(prefix):
            found.setdefault(message["key"], []).append(json.loads(message["body"])["n"])
    return found


@pytest.mark.parametrize("seconds, rounds", [(0.3, 20), (1.5, 6)])
def test_the_next_event_of_a_slow_writer_comes_after_the_first(postgres, programs, tmp_path, seconds, rounds):
    """`seconds` is once shorter and once longer than the time for which a relay watches an open transaction."""
    relay = start_relay(programs, events_config(tmp_path, postgres, {"type": "console"}), "relay")
    crowd = Crowd(postgres.url)

    def add(connection, aggregate, n):
        return connection.execute("SELECT deliverd.add_event(%s, %s, jsonb_build_object('n', %s::int))",
                                  (aggregate, TYPE, n)).fetchone()[0]

    def passed(row_id):
        return postgres.query("SELECT EXISTS (SELECT FROM outbox o WHERE o.id > ? AND o.published AND o.created_at > "
                              "(SELECT xact_start FROM pg_stat_activity WHERE application_name = 'slow') "
                              "+ ? * interval '1 second') AS yes", row_id, seconds)[0]["yes"]

    try:
        with psycopg.connect(postgres.url, application_name="slow") as writer:
            for number in range(rounds):
                row_id = add(writer, f"slow-{number}", 1)
                wait_for(lambda: passed(row_id), 30, "later events to be published")
                writer.commit()
                for n in (2, 3):
                    add(writer, f"slow-{number}", n)
                    writer.commit()
    finally:
        crowd.end()
    wait_until_published(postgres, 30)
    relay.terminate()
    assert relay.wait() == 0
    assert numbers(relay, "slow-") == {f"slow-{number}": [1, 2, 3] for number in range(rounds)}
