"""Each dead letter is stored once, byte for byte, while its readers are killed and restarted."""

import contextlib
import signal

from confluent_kafka import Consumer, ConsumerGroupState, TopicPartition
from confluent_kafka.admin import AdminClient
from harness.dlq_service import (
    DLQ,
    SUFFIX,
    DeadLetterService,
    Records,
    count_letters,
    digest,
    fresh_name,
    stored_records,
)
from harness.events import seeded
from harness.waiting import wait_for

TOPICS, PARTITIONS, RECORDS = 5, 4, 20_000
KILLS, CRASHES, STOPS = 2, 2, 2
STEP_SECONDS = 60
# A killed member keeps its partitions this long. Kafka accepts no smaller value.
GROUP = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}


def some_record(rng, number):
    """Keys, values and headers of all kinds; the number makes each record unique."""
    key = rng.choice([None, b"", f"k-{number % 100}".encode()])
    value = rng.choice([None, b"", b'{"n": %d}' % number, rng.randbytes(rng.randint(1, 300))])
    headers = [("n", str(number).encode()), ("trace", rng.choice([None, b"", rng.randbytes(8)]))]
    return key, value, headers + rng.choice([[], [("error", b"no stock")], [("trace", b"again"), ("", b"nameless")]])


class Readers:
    """Two processes of one group. One of them is killed while records are produced."""

    def __init__(self, rng, store, start, records):
        self._rng, self._store, self._start, self._records = rng, store, start, records
        self.slots = [start(), start()]

    def kill(self, part):
        slot = self._some_of(part)
        self.slots[slot].process.kill9()
        self.slots[slot] = self._start()

    def stop(self, part):
        slot = self._some_of(part)
        self.slots[slot].process.terminate()
        assert self.slots[slot].process.wait() == 0
        self.slots[slot] = self._start()

    def crash(self, part):
        """One dies between the database's commit and the group's, so the others read again what it stored. It runs alone,
        because others might read it before the test looks."""
        slot = self._rng.randrange(2)
        self.slots[slot].process.kill9()
        other = self.slots[1 - slot].process
        other.terminate()
        assert other.wait() == 0
        name = fresh_name("doomed")
        doomed = self._start(name, failpoints=f"ingest.after_store=crash@{self._rng.randint(1, 2)}", until_ready=False)

        def wait_unless_dead(condition, what):
            wait_for(lambda: not doomed.process.alive() or condition(), STEP_SECONDS,
                     lambda: f"{what}: {doomed.process.stderr[-3000:]}")

        wait_unless_dead(lambda: self._records.is_read_by(name), "it to have partitions")
        for some in (part // 2, part - part // 2):  # each partition has records for it
            self._records.produce_some(some)
            wait_unless_dead(lambda: self.stored() == len(self._records.sent), "all to be stored")
        assert doomed.process.wait() == -signal.SIGKILL
        assert self._records.committed() < self.stored(), "some are stored and will be read again"
        self.slots = [self._start(), self._start()]

    def stored(self):
        return count_letters(self._store)

    def wait_for_stored(self, count):
        wait_for(lambda: self.stored() >= count, STEP_SECONDS, lambda: f"{count} letters, there are {self.stored()}: "
                 + "\n".join(reader.process.stderr[-1500:] for reader in self.slots))

    def _some_of(self, part):
        """The process to kill next, chosen while part of the records are stored."""
        before = len(self._records.sent)
        self._records.produce_some(part)
        self.wait_for_stored(before + self._rng.randrange(part // 2))
        return self._rng.randrange(2)


class SomeRecords(Records):
    """Spreads records over topics and partitions; the generator makes their contents."""

    def __init__(self, kafka, rng, prefix):
        super().__init__(kafka)
        self._rng, self._kafka, self._group = rng, kafka, f"g-{prefix}"
        self.topics = [kafka.create_topic(f"{prefix}-{number}{SUFFIX}", PARTITIONS) for number in range(TOPICS)]

    def produce_some(self, count):
        by_topic = {topic: [] for topic in self.topics}
        for number in range(len(self.sent), len(self.sent) + count):
            by_topic[self.topics[number % TOPICS]].append(some_record(self._rng, number))
        for topic, some in by_topic.items():
            self.produce(topic, some)

    def is_read_by(self, client_id):
        """Whether the member has partitions assigned."""
        admin = AdminClient({"bootstrap.servers": self._kafka.brokers, "log_level": 0})
        group = admin.describe_consumer_groups([self._group])[self._group].result(STEP_SECONDS)
        return group.state == ConsumerGroupState.STABLE and any(
            member.client_id == client_id and member.assignment.topic_partitions for member in group.members)

    def committed(self):
        """How many records the group has committed."""
        places = [TopicPartition(topic, number) for topic in self.topics for number in range(PARTITIONS)]
        settings = {"bootstrap.servers": self._kafka.brokers, "group.id": self._group, "log_level": 0}
        with contextlib.closing(Consumer(settings)) as asker:
            return sum(max(place.offset, 0) for place in asker.committed(places, timeout=STEP_SECONDS))


def test_twenty_thousand_records_two_readers_killed_again_and_again(programs, postgres, kafka, tmp_path):
    rng = seeded()
    prefix = fresh_name("chaos")
    records = SomeRecords(kafka, rng, prefix)

    def start(name="reader", **how):
        settings = {"librdkafka": GROUP | {"client.id": name}}
        return DeadLetterService(programs, tmp_path, postgres, kafka, prefix, kafka_settings=settings, **how)

    readers = Readers(rng, postgres, start, records)
    blows = ["kill"] * KILLS + ["crash"] * CRASHES + ["stop"] * STOPS
    rng.shuffle(blows)
    print(blows)
    for blow in blows:
        getattr(readers, blow)(RECORDS // (len(blows) + 1))
    records.produce_some(RECORDS - len(records.sent))
    readers.wait_for_stored(RECORDS)
    assert all(reader.process.alive() for reader in readers.slots)

    found = stored_records(postgres, prefix)
    assert len(found) == readers.stored() == len(records.sent) == RECORDS
    assert digest(found) == digest(records.sent)
    for reader in readers.slots:
        counts = {topic["topic"]: topic["total"] for topic in reader.get(DLQ).json()["topics"]}
        assert counts == dict.fromkeys(records.topics, RECORDS // TOPICS)
        reader.process.terminate()
    assert [reader.process.wait() for reader in readers.slots] == [0, 0]
    assert readers.stored() == RECORDS, "nothing more came"
