"""The dead-letter manager between a real Kafka and a database: configuration, input, output."""

import contextlib
import hashlib
import json
import uuid
from base64 import b64decode

import psycopg
from confluent_kafka import Producer

from harness.dead_letters import table
from harness.ports import free_port
from harness.service import Service
from harness.stores import write_config
from harness.waiting import wait_for
from harness.web import get

DLQ = "/api/v1/dlq"
SUFFIX = ".dlq.v1"
REPLAYS = "deliverd-replays"
FLUSH_SECONDS = 240
# What the broker does not confirm in time is in doubt, so a slow broker needs time. The lease must exceed three of
# these timeouts.
QUICK_RETRIES = {"replay_timeout_seconds": 5, "retry_lease_seconds": 15.1}
LONG_LEASES = {"replay_timeout_seconds": 10, "retry_lease_seconds": 3600}  # longer than any test: see end_leases()
RETRY_ALL_SECONDS = 300
HOLD_KEY = 42  # of an advisory lock in the test's own database


def fresh_name(word):
    """A topic prefix that no other test uses."""
    return f"{word}-{uuid.uuid4().hex[:8]}"


class Records:
    """Produced records, as the broker acknowledged them: (topic, partition, offset) → (key, value, headers)."""

    def __init__(self, kafka):
        self._producer = Producer({"bootstrap.servers": kafka.brokers, "message.max.bytes": 10_000_000,
                                   "linger.ms": 5, "log_level": 0})
        self.sent = {}

    def produce(self, topic, records):
        """Returns once the broker has stored all of them."""
        wanted = len(self.sent)
        for key, value, headers in records:
            wanted += 1
            self._producer.produce(topic, value, key, headers=headers, on_delivery=self._keeper(key, value, headers))
            self._producer.poll(0)
        assert self._producer.flush(FLUSH_SECONDS) == 0
        assert len(self.sent) == wanted, "each was acknowledged"

    def _keeper(self, key, value, headers):
        def keep(error, message):
            assert error is None, error
            self.sent[message.topic(), message.partition(), message.offset()] = (key, value, headers)

        return keep


def digest(records):
    """A digest of (topic, partition, offset) → (key, value, headers), independent of the order."""
    whole = hashlib.sha256()
    for place in sorted(records):
        key, value, headers = records[place]
        whole.update(repr((place, key, value, [tuple(header) for header in headers])).encode())
    return whole.hexdigest()


def _headers(stored):
    return [(header["name"], None if header["value_base64"] is None else b64decode(header["value_base64"]))
            for header in stored]


def stored_records(store, prefix):
    """The letters in PostgreSQL from topics with this prefix, as in Records.sent. Each place occurs once."""
    with psycopg.connect(store.url) as connection:
        rows = connection.execute(
            "SELECT source_topic, source_partition, source_offset, record_key, record_value, record_headers"
            " FROM dlq.dlq_messages WHERE starts_with(source_topic, %s)", (prefix,)).fetchall()
    found = {tuple(row[:3]): (row[3], row[4], _headers(row[5])) for row in rows}
    assert len(found) == len(rows), "a record was stored twice"
    return found


def count_letters(store, where="true", *parameters):
    return store.query(f"SELECT count(*) AS n FROM {table(store)} WHERE {where}", *parameters)[0]["n"]


class DeadLetterService(Service):
    """`serve` without auth that reads the topics PREFIX*.dlq.v1 and sends back."""

    def __init__(self, programs, folder, store, kafka, prefix, *, kafka_settings=None, dead_letters=None, **how):
        port = free_port()
        section = {"brokers": [kafka.brokers], "consumer_group": f"g-{prefix}",
                   "dlq_topic_pattern": f"{prefix}*{SUFFIX}"} | (kafka_settings or {})
        self.config = write_config(folder, store, name=f"dlq-{port}.yaml", server={"port": port}, kafka=section,
                                   dead_letters=dead_letters or {})
        super().__init__(programs, self.config, port, **how)

    def post(self, path, **how):
        return get(self.base + DLQ + path, method="POST", **how)

    def retry(self, letter_id):
        return self.post(f"/messages/{letter_id}/retry")

    def retry_all(self, topic):
        return self.post(f"/{topic}/retry-all", timeout_seconds=RETRY_ALL_SECONDS)

    def letter(self, letter_id):
        return self.get(f"{DLQ}/messages/{letter_id}").json()

    def raw(self, letter_id):
        """(key, value, headers), and whether it was cut."""
        page = self.get(f"{DLQ}/messages/{letter_id}/raw").json()
        key, value = (None if page[name] is None else b64decode(page[name]) for name in ("key_base64", "value_base64"))
        return (key, value, _headers(page["headers"])), page["truncated"]

    def wait_for_letters(self, store, prefix, count, deadline_seconds):
        def stored():
            assert self.process.alive(), self.process.stderr[-3000:]
            return count_letters(store, f"substr(source_topic, 1, {len(prefix)}) = ?", prefix) >= count

        wait_for(stored, deadline_seconds, lambda: f"{count} letters of {prefix}: {self.process.stderr[-3000:]}")


def letters_by_offset(store, topic):
    return {row["source_offset"]: str(row["id"]) for row in store.query(
        f"SELECT source_offset, id FROM {table(store)} WHERE source_topic = ?", topic)}


def add_letters(store, topic, count):
    """Adds letters to PostgreSQL that can be sent back to the topic; the value is the number. Returns id → value."""
    rows = store.query(
        "INSERT INTO dlq.dlq_messages (original_topic, record_key, record_value, payload, record_headers)"
        " SELECT ?, convert_to('k-' || n, 'UTF8'), convert_to(n::text, 'UTF8'), to_jsonb(n), ?::jsonb"
        " FROM generate_series(1, ?) n RETURNING id, payload",
        topic, json.dumps([{"name": "trace", "value_base64": "dDE="}]), count)
    return {str(row["id"]): str(row["payload"]).encode() for row in rows}


@contextlib.contextmanager
def held_up_at(store, topic, number):
    """In PostgreSQL: inside the block, no retry-all of the topic gets past the letter with that number. Keep the block
    shorter than deliverd waits for a lock."""
    (letter,) = store.query("SELECT id FROM dlq.dlq_messages WHERE original_topic = ? ORDER BY created_at, id"
                            " LIMIT 1 OFFSET ?", topic, number)
    with psycopg.connect(store.url) as holder:
        holder.execute("CREATE FUNCTION hold_up() RETURNS trigger LANGUAGE plpgsql AS"
                       f" 'begin perform pg_advisory_xact_lock_shared({HOLD_KEY}); return new; end'")
        holder.execute("CREATE TRIGGER hold_up BEFORE UPDATE ON dlq.dlq_messages FOR EACH ROW"
                       f" WHEN (old.id = '{letter['id']}') EXECUTE FUNCTION hold_up()")
        holder.commit()
        holder.execute(f"SELECT pg_advisory_xact_lock({HOLD_KEY})")
        yield  # the end of the transaction releases it


def end_leases(store):
    """Expires leases in PostgreSQL, as if time had passed: of letters being retried, and of retries of whole topics."""
    past = "now() - interval '1 second'"
    store.query(f"UPDATE dlq.dlq_messages SET retry_expires_at = {past} WHERE retry_owner IS NOT NULL RETURNING id")
    store.query(f"UPDATE deliverd.redrives SET expires_at = {past} WHERE NOT finished RETURNING topic")


def error(page):
    """Status, code and message of a refusal."""
    reported = page.json()["error"]
    assert reported["request_id"], page.text
    return page.status, reported["code"], reported["message"]
