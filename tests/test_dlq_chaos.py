"""Dead letters are stored once each, byte for byte, while those who read them are killed and come back."""

import signal
import time

import pytest

from harness.dlq_service import (DLQ, SUFFIX, DeadLetterService, Records, count_letters, digest, fresh_name,
                                 stored_records)
from harness.events import seeded
from harness.waiting import wait_for

TOPICS, PARTITIONS, RECORDS = 5, 4, 20_000
KILLS, CRASHES, STOPS = 2, 2, 2
STEP_SECONDS, ALL_SECONDS = 60, 150
# A killed member keeps its partitions for as long as this; Kafka's own least.
GROUP = {"librdkafka": {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}}


def some_record(rng, number):
    """Keys, values and headers of all kinds; the number makes each its own."""
    key = rng.choice([None, b"", f"k-{number % 100}".encode()])
    value = rng.choice([None, b"", b'{"n": %d}' % number, rng.randbytes(rng.randint(1, 300))])
    headers = [("n", str(number).encode()), ("trace", rng.choice([None, b"", rng.randbytes(8)]))]
    return key, value, headers + rng.choice([[], [("error", b"no stock")], [("trace", b"again"), ("", b"nameless")]])


class Readers:
    """Two processes of one group; blows fall on either."""

    def __init__(self, rng, start):
        self._rng, self._start = rng, start
        self.slots = [start(), start()]

    def kill(self, stored):
        slot = self._rng.randrange(2)
        stored()
        self.slots[slot].process.kill9()
        self.slots[slot] = self._start()

    def stop(self, stored):
        slot = self._rng.randrange(2)
        stored()
        self.slots[slot].process.terminate()
        assert self.slots[slot].process.wait() == 0
        self.slots[slot] = self._start()

    def crash(self, _stored):
        """One dies between the store's commit and the group's: others read again what it had stored."""
        slot = self._rng.randrange(2)
        self.slots[slot].process.kill9()
        doomed = self._start(failpoints=f"ingest.after_store=crash@{self._rng.randint(1, 2)}", until_ready=False)
        assert doomed.process.wait(STEP_SECONDS) == -signal.SIGKILL
        self.slots[slot] = self._start()


@pytest.mark.timeout(240)
def test_twenty_thousand_records_two_readers_killed_again_and_again(programs, postgres, kafka, tmp_path):
    rng = seeded()
    prefix = fresh_name("chaos")
    topics = [kafka.create_topic(f"{prefix}-{number}{SUFFIX}", PARTITIONS) for number in range(TOPICS)]
    records = Records(kafka)
    numbers = iter(range(RECORDS))
    began = time.monotonic()

    def produce(count):
        """Spread over the topics, to their very last record."""
        by_topic = {topic: [] for topic in topics}
        for number in (next(numbers) for _ in range(count)):
            by_topic[topics[number % TOPICS]].append(some_record(rng, number))
        for topic, some in by_topic.items():
            records.produce(topic, some)

    def stored(count):
        wait_for(lambda: count_letters(postgres) >= count, STEP_SECONDS, lambda: (
            f"{count} letters, there are {count_letters(postgres)}: "
            + "\n".join(reader.process.stderr[-1500:] for reader in readers.slots)))

    readers = Readers(rng, lambda **how: DeadLetterService(programs, tmp_path, postgres, kafka, prefix,
                                                           kafka_settings=GROUP, **how))
    blows = ["kill"] * KILLS + ["crash"] * CRASHES + ["stop"] * STOPS
    rng.shuffle(blows)
    print(blows)
    part = RECORDS // (len(blows) + 1)
    for number, blow in enumerate(blows):
        produce(part)
        point = int(part * (number + rng.uniform(0, 0.5)))
        getattr(readers, blow)(lambda point=point: stored(point))
    produce(RECORDS - part * len(blows))
    stored(RECORDS)
    assert all(reader.process.alive() for reader in readers.slots)
    assert time.monotonic() - began < ALL_SECONDS

    found = stored_records(postgres, prefix)
    assert len(found) == count_letters(postgres) == len(records.sent) == RECORDS
    assert digest(found) == digest(records.sent)
    for reader in readers.slots:
        counts = {topic["topic"]: topic["total"] for topic in reader.get(DLQ).json()["topics"]}
        assert counts == {topic: RECORDS // TOPICS for topic in topics}
        reader.process.terminate()
    assert [reader.process.wait() for reader in readers.slots] == [0, 0]
    assert count_letters(postgres) == RECORDS, "nothing more came"
