"""Lanes of events: configuration, what applications write, and what consumers of each broker see."""

import asyncio
import json
import subprocess
from contextlib import contextmanager

import nats
import pika

from harness.receiver import Answer
from harness.stores import write_whole
from harness.waiting import wait_for

DEADLINE_SECONDS = 60
ANSWER_SECONDS = 60


def events_config(folder, store, sink, *, lane=None, lane_name="events", name="deliverd.yaml", **sections):
    """Writes a configuration with one lane of events. (JSON is YAML.) Returns its path."""
    document = {"database": {"url": store.url},
                "lanes": {lane_name: {"outbox": "events", "sink": sink} | (lane or {})}} | sections
    return write_whole(folder / name, json.dumps(document, indent=2))


def quick(**settings):
    """A lane whose retries a test can wait for."""
    retry = {"base_seconds": 0.1, "factor": 1, "jitter": 0} | settings.pop("retry", {})
    return {"retry": retry, "idle_poll_ms": 50} | settings


def start_relay(programs, config, lane_name="events"):
    return programs.start("worker", "--lane", lane_name, "--loop", "--config", config)


def write(store, aggregate="order-1", event_type="OrderPaid", payload="{}", metadata="{}"):
    """A plain INSERT, committed. Returns the id."""
    return store.query("INSERT INTO outbox (aggregate_id, event_type, payload, metadata) VALUES (?, ?, ?, ?)"
                       " RETURNING id", aggregate, event_type, payload, metadata)[0]["id"]


def as_text(store, column):
    return f"{column}::text" if store.kind == "postgres" else column


def row(store, event):
    return store.query(f"SELECT id, aggregate_id, event_type, {as_text(store, 'payload')} AS payload,"
                       f" {as_text(store, 'metadata')} AS metadata, created_at, published, published_at,"
                       f" {as_text(store, 'event_id')} AS event_id, retry_count, next_attempt_at, last_error, dead_at"
                       " FROM outbox WHERE id = ?", event)[0]


def rows(store):
    return [row(store, found["id"]) for found in store.query("SELECT id FROM outbox ORDER BY id")]


def state(store, event):
    found = row(store, event)
    if found["published"]:
        return "published"
    if found["dead_at"] is not None:
        return "dead"
    return "waiting" if found["retry_count"] else "open"


def wait_for_state(store, event, wanted, deadline_seconds=DEADLINE_SECONDS):
    wait_for(lambda: state(store, event) == wanted, deadline_seconds, lambda: f"{wanted}: {row(store, event)}")
    return row(store, event)


def wait_for_all_published(store, deadline_seconds=DEADLINE_SECONDS):
    def all_published():
        return not store.query("SELECT id FROM outbox WHERE NOT published LIMIT 1")

    wait_for(all_published, deadline_seconds,
             lambda: "all to be published: " + str(store.query("SELECT id, retry_count, last_error, dead_at FROM outbox"
                                                               " WHERE NOT published LIMIT 5")))


def created_text(store, event):
    """created_at as RFC 3339 in UTC."""
    created = row(store, event)["created_at"]
    return created.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if store.kind == "postgres" else created


def header_text(value):
    """The header value for a metadata entry whose JSON text is `value`."""
    return json.loads(value) if value.startswith('"') else value


def always_ok(receiver):
    receiver.answer_with(lambda call: Answer(200, {}))
    return receiver


# --- consumers -------------------------------------------------------------------------------------------------------

def kcat(server, topic):
    """Everything in a topic as kcat prints it: dictionaries with key, payload and `headers`, a list of pairs."""
    out = subprocess.run(["kcat", "-C", "-J", "-e", "-q", "-b", server.brokers, "-t", topic], capture_output=True,
                         check=True, timeout=DEADLINE_SECONDS).stdout
    found = [json.loads(line) for line in out.decode().splitlines()]
    for message in found:
        flat = message.get("headers", [])
        message["headers"] = list(zip(flat[::2], flat[1::2]))
    return found


@contextmanager
def rabbit_channel(url):
    parameters = pika.URLParameters(url)
    parameters.socket_timeout = parameters.blocked_connection_timeout = ANSWER_SECONDS
    connection = pika.BlockingConnection(parameters)
    try:
        yield connection.channel()
    finally:
        connection.close()


def take_from_queue(channel, queue):
    """Waits for the next message; returns (method, properties, body)."""
    def next_one():
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        return (method, properties, body) if method else None

    return wait_for(next_one, DEADLINE_SECONDS, f"a message in {queue}")


def with_jetstream(url, work):
    """Returns the result of `await work(jetstream, client)`."""
    async def connected():
        client = await nats.connect(url, allow_reconnect=False, connect_timeout=ANSWER_SECONDS)
        try:
            return await work(client.jetstream(timeout=ANSWER_SECONDS), client)
        finally:
            await client.close()

    return asyncio.run(connected())


def add_stream(url, name, *subjects, **settings):
    async def add(streams, _client):
        await streams.add_stream(name=name, subjects=list(subjects), **settings)

    with_jetstream(url, add)


def delete_stream(url, name):
    async def delete(streams, _client):
        await streams.delete_stream(name)

    with_jetstream(url, delete)


def stream_messages(url, name):
    """Everything in a stream: values with subject, data (bytes) and headers."""
    async def read(streams, _client):
        last = (await streams.stream_info(name)).state.last_seq
        return [await streams.get_msg(name, number) for number in range(1, last + 1)]

    return with_jetstream(url, read)
