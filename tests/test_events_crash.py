"""The promise of the event outbox while everything around it dies: nothing lost, each aggregate in order, and doubles
only of what was under way."""

import signal
import threading
import time

import pytest

from harness.chaos import Chaos
from harness.event_brokers import PLACES
from harness.events import (Arrival, Relays, Writers, aggregate_name, check_arrivals, check_doubles, check_table,
                            events_config, open_events, seeded, shards_by_owner, start_relay, wait_until_published,
                            write_events)
from harness.receiver import Answer
from harness.waiting import wait_for

LEASE_SECONDS = 2
PARALLELISM, BATCH = 200, 100
FAST = {"lease_seconds": LEASE_SECONDS, "parallelism": PARALLELISM, "batch_size": BATCH}
MOST_UNDER_WAY = 2 * PARALLELISM + 4 * BATCH  # of one relay, recorded or not
CHAOS_SECONDS = 90
SHARDS = 64


@pytest.fixture(params=["kafka", "rabbitmq", "nats"])
def place(request):
    """A topic, queue or stream."""
    return PLACES[request.param](request.getfixturevalue(request.param))


@pytest.mark.timeout(240)
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
