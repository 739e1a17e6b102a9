"""The event outbox while everything around it dies: nothing is lost, each aggregate stays in order, and only events
in flight are duplicated."""

import signal
import threading
import time

import pytest
from harness.chaos import Chaos
from harness.event_brokers import PLACES
from harness.events import (
    Arrival,
    Relays,
    Writers,
    aggregate_name,
    check_arrivals,
    check_doubles,
    check_table,
    events_config,
    open_events,
    seeded,
    shards_by_owner,
    start_relay,
    wait_until_published,
    write_events,
)
from harness.receiver import Answer
from harness.waiting import wait_for

LEASE_SECONDS = 2
PARALLELISM, BATCH = 200, 100
FAST = {"lease_seconds": LEASE_SECONDS, "parallelism": PARALLELISM, "batch_size": BATCH}
MOST_UNDER_WAY = 2 * PARALLELISM + 4 * BATCH  # of one relay, recorded or not
CHAOS_SECONDS = 60  # between two faults
SHARDS = 64


@pytest.fixture(params=["kafka", "rabbitmq", "nats"])
def place(request):
    """A topic, queue or stream."""
    return PLACES[request.param](request.getfixturevalue(request.param))


def test_relays_and_broker_killed_again_and_again(place, postgres, programs, tmp_path):
    rng = seeded()
    began = time.monotonic()
    relays = Relays(programs, events_config(tmp_path, postgres, place.sink, **FAST), 3)
    writers = Writers(postgres.url, rng, aggregates=1000, events_each=50)
    chaos = Chaos(rng, postgres, writers, relays, place.server, LEASE_SECONDS, CHAOS_SECONDS)
    chaos.run(kills=10, outages=2, pauses=1)
    relays.stop()
    took = time.monotonic() - began
    doubles = check_arrivals(postgres, place.arrivals(), writers.expected)
    causes = chaos.disturbances + relays.disturbances + relays.lost_leases(LEASE_SECONDS)
    print(f"{writers.total} events in {took:.1f} s, {len(doubles)} doubles, {[cause.what for cause in causes]}")
    check_doubles(postgres, doubles, causes)
    assert len(doubles) <= MOST_UNDER_WAY * (len(causes) + 2 * len(chaos.disturbances))
    if place.drops_repeats:
        assert doubles == [], "the stream had seen them"


def a_call(call):
    return Arrival(call.headers["x-aggregate-id"], call.body["n"], call.key, time.time())


class Shaky:
    """A receiver's script: accepts most requests, refuses some, and drops the connection of others, before or after
    accepting them."""

    def __init__(self, rng):
        self._rng = rng
        self._lock = threading.Lock()
        self.tried, self.taken = [], []
        self.unanswered = set()  # message ids that were taken without an answer

    def __call__(self, call):
        arrival = a_call(call)
        with self._lock:
            luck = self._rng.random()
            self.tried.append(arrival)
            if luck < 0.1:
                return Answer(503)
            if luck < 0.13:
                return Answer(429)
            if luck < 0.16:
                return Answer(drop=True)
            self.taken.append(arrival)
            if luck < 0.2:
                self.unanswered.add(arrival.message_id)
                return Answer(drop=True)
        return Answer(body={})


def test_relays_killed_before_a_shaky_receiver(receiver, postgres, programs, tmp_path):
    rng = seeded()
    shaky = Shaky(rng)
    receiver.answer_with(shaky)
    sink = {"type": "http", "url": receiver.url, "breaker_failures": 0}
    retry = {"base_seconds": 0.05, "cap_seconds": 1, "max": 100}
    # What a relay sent before it was killed may stay in the receiver's sockets for a while.
    relays = Relays(programs, events_config(tmp_path, postgres, sink, **FAST | {"parallelism": 30, "retry": retry}), 3,
                    seen_late_seconds=5)
    writers = Writers(postgres.url, rng, aggregates=100, events_each=30, ahead=500)
    chaos = Chaos(rng, postgres, writers, relays, None, LEASE_SECONDS, CHAOS_SECONDS)
    chaos.run(kills=8, outages=0, pauses=1)
    relays.stop()
    doubles = check_arrivals(postgres, shaky.taken, writers.expected)
    check_arrivals(postgres, shaky.tried, writers.expected)  # not even attempted out of order
    causes = relays.disturbances + relays.lost_leases(LEASE_SECONDS)
    print(f"{len(shaky.tried)} requests, {len(doubles)} doubles, {[cause.what for cause in causes]}")
    check_doubles(postgres, [pair for pair in doubles if pair[0].message_id not in shaky.unanswered], causes)
    assert postgres.query("SELECT count(*) AS n FROM outbox WHERE retry_count > 0")[0]["n"] > 0, "some had failed"


def test_postgresql_killed_while_events_go_to_kafka(kafka, restartable, programs, tmp_path):
    rng = seeded()
    place = PLACES["kafka"](kafka)
    relays = Relays(programs, events_config(tmp_path, restartable, place.sink, **FAST), 3)
    writers = Writers(restartable.url, rng, aggregates=200, events_each=50, ahead=2000)
    chaos = Chaos(rng, restartable, writers, relays, restartable.server, LEASE_SECONDS, CHAOS_SECONDS)
    chaos.run(kills=2, outages=3, pauses=0)
    assert all(relay.alive() for relay in relays.slots), "they survive the crash of the database"
    relays.stop()
    doubles = check_arrivals(restartable, place.arrivals(), writers.expected)
    causes = chaos.disturbances + relays.disturbances + relays.lost_leases(LEASE_SECONDS)
    print(f"{writers.total} events, {len(doubles)} doubles, {[cause.what for cause in causes]}")
    check_doubles(restartable, doubles, causes)
    dead_or_failed = restartable.query("SELECT count(*) AS n FROM outbox WHERE retry_count > 0")[0]["n"]
    assert dead_or_failed == 0, "a crash of the database is not a failed attempt"


def test_a_relay_that_lost_its_shards_changes_nothing(store, receiver, programs, tmp_path):
    """It wakes up and has failures to record for events that other relays have published."""
    aggregates, wakes = 20, threading.Event()

    def script(call):
        return Answer(500, hold=wakes) if call.number <= aggregates else Answer(body={})

    receiver.answer_with(script)
    sink = {"type": "http", "url": receiver.url, "timeout_ms": 30000, "breaker_failures": 0}
    config = events_config(tmp_path, store, sink, lease_seconds=4, parallelism=aggregates)  # the others keep theirs
    write_events(store, aggregates, events_each=3)
    sleeper = start_relay(programs, config, "sleeper")
    wait_for(lambda: receiver.count() == aggregates, 20, "its sends")
    sleeper.stop_outside_a_transaction(store)
    others = [start_relay(programs, config, name) for name in ("left", "right")]
    wait_until_published(store, 40)
    published = check_table(store, {aggregate_name(number): 3 for number in range(aggregates)})
    sleeper.send(signal.SIGCONT)
    wakes.set()
    wait_for(lambda: sorted(shards_by_owner(store).values()) == [21, 21, 22], 40,
             lambda: f"the sleeper to take part again: {shards_by_owner(store)}")
    write_events(store, aggregates, events_each=3, first=4)
    wait_until_published(store, 40)
    for relay in (sleeper, *others):
        relay.terminate()
        assert relay.wait() == 0

    expected = {aggregate_name(number): 6 for number in range(aggregates)}
    rows = {row["event_id"]: row for row in check_table(store, expected)}
    assert all(rows[row["event_id"]] == row for row in published), "what was recorded stayed"
    doubles = check_arrivals(store, [a_call(call) for call in receiver.calls], expected)
    assert {first.n for first, _ in doubles} == {1} and len(doubles) == aggregates, "only the events that the sleeper had sent"
    assert store.query("SELECT count(*) AS n FROM outbox WHERE retry_count > 0 OR last_error IS NOT NULL") == [{"n": 0}]
    assert store.query("SELECT count(*) AS n FROM outbox_audit WHERE reason = 'outbox_flush_retry'") == [{"n": 0}]


def test_relays_that_come_and_go_share_without_duplicates(kafka, postgres, programs, tmp_path):
    rng = seeded()
    place = PLACES["kafka"](kafka)
    config = events_config(tmp_path, postgres, place.sink, lease_seconds=9)  # a lost one would cause duplicates
    writers = Writers(postgres.url, rng, aggregates=200, events_each=100_000, ahead=100)

    def wait_until_shared(*names):
        def shared():
            more_published()
            owners = shards_by_owner(postgres)
            return owners.keys() == set(names) and max(owners.values()) - min(owners.values()) <= 1 and (
                sum(owners.values()) == SHARDS)

        wait_for(shared, 60, lambda: f"even shares for {names}: {shards_by_owner(postgres)}")

    def more_published(count=0):
        assert not writers.done()
        writers.published = writers.written - open_events(postgres)
        return writers.published >= count

    def wait_for_more():
        enough = writers.published + 2000
        wait_for(lambda: more_published(enough), 30, "events to be published")

    first = start_relay(programs, config, "first")
    wait_until_shared("first")
    wait_for_more()
    for number in (1, 2):
        names = [f"second-{number}", f"third-{number}"]
        guests = [start_relay(programs, config, name) for name in names]
        wait_until_shared("first", *names)
        wait_for_more()
        for guest in guests:
            guest.terminate()
        assert [guest.wait() for guest in guests] == [0, 0]
        assert shards_by_owner(postgres).keys() <= {"first"}, "they gave back what they held"
        wait_until_shared("first")
        wait_for_more()
    writers.stop()
    wait_until_published(postgres, 30)
    first.terminate()
    assert first.wait() == 0
    assert shards_by_owner(postgres) == {}
    doubles = check_arrivals(postgres, place.arrivals(), writers.expected)
    assert doubles == [], "nobody died"
    print(f"{writers.written} events")


POINTS = ["lane.after_claim", "lane.before_send", "lane.after_send", "lane.before_settle", "store.during_settle"]


@pytest.mark.parametrize("passage", [1, 2])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at(store, receiver, programs, tmp_path, point, passage):
    aggregates, each = 10, 12  # more than two settles can take
    receiver.answer_with(lambda call: Answer(body={}))
    config = events_config(tmp_path, store, {"type": "http", "url": receiver.url}, lease_seconds=1, batch_size=10,
                           parallelism=4)
    write_events(store, aggregates, each)
    victim = start_relay(programs, config, "victim", failpoints=f"{point}=crash@{passage}")
    assert victim.wait() == -signal.SIGKILL, victim.stderr
    received = set(receiver.times())
    unrecorded = {str(row["event_id"]) for row in store.query("SELECT event_id FROM outbox WHERE NOT published")}
    # The server executes a settle that it received even if the sender has died.
    assert unrecorded or point == "store.during_settle", "it died when no work was left"
    if (point, passage) in (("lane.after_claim", 1), ("lane.before_send", 1)):
        assert not received, "nothing had been sent yet"

    survivor = start_relay(programs, config, "survivor")
    wait_until_published(store, 40)
    survivor.terminate()
    assert survivor.wait() == 0
    arrivals = [a_call(call) for call in receiver.calls]
    doubles = check_arrivals(store, arrivals, {aggregate_name(number): each for number in range(aggregates)})
    assert {first.message_id for first, _ in doubles} <= unrecorded
    assert max(receiver.times().values()) <= 2
    assert store.query("SELECT count(*) AS n FROM outbox WHERE retry_count > 0") == [{"n": 0}]
