"""Kafka, RabbitMQ and NATS behind one interface: a durable place for events, and its contents."""

import asyncio
import contextlib
import json
import uuid

import nats
import pika
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, RetentionPolicy, StorageType, StreamConfig

from harness.events import Arrival

PARTITIONS = 6
ANSWER_SECONDS = 120
READ_AT_ONCE = 1000
DUPLICATE_WINDOW_SECONDS = 1200  # longer than any test


def _arrival(aggregate, body, message_id, at=None):
    payload = json.loads(body)
    assert payload["kept"], f"what was rolled back arrived: {aggregate} {payload}"
    return Arrival(aggregate, payload["n"], message_id, at)


class KafkaTopic:
    drops_repeats = False

    def __init__(self, server):
        self.server = server
        self.name = server.create_topic(f"events.{uuid.uuid4().hex[:8]}", partitions=PARTITIONS)
        self.sink = {"type": "kafka", "brokers": server.brokers, "topic": self.name}

    def arrivals(self):
        found = []
        for message in self.server.read_topic(self.name):
            headers = dict(message.headers())
            assert message.key() == headers["aggregate_id"]
            found.append(_arrival(message.key().decode(), message.value(), headers["message_id"].decode(),
                                  message.timestamp()[1] / 1000))
        return found


class RabbitQueue:
    """A durable queue; it is read once, at the end."""

    drops_repeats = False

    def __init__(self, server):
        self.server = server
        self.name = f"events.{uuid.uuid4().hex[:8]}"
        self.sink = {"type": "rabbitmq", "url": server.url(), "topic": self.name}
        with self._channel() as channel:
            channel.queue_declare(self.name, durable=True)
        server.keep_definitions()  # a server that is killed at once would lose the queue

    @contextlib.contextmanager
    def _channel(self):
        parameters = pika.URLParameters(self.server.url())
        with contextlib.closing(pika.BlockingConnection(parameters)) as connection:
            yield connection.channel()

    def arrivals(self):
        found = []
        with self._channel() as channel:
            count = channel.queue_declare(self.name, passive=True).method.message_count
            if count == 0:
                return found
            messages = channel.consume(self.name, auto_ack=True, inactivity_timeout=ANSWER_SECONDS)
            for method, properties, body in messages:
                assert method is not None, f"{len(found)} of {count} messages arrived, then nothing more"
                found.append(_arrival(properties.headers["aggregate_id"], body, properties.message_id))
                if len(found) == count:
                    break
            channel.cancel()
        return found


class NatsStream:
    """A stream in files that drops repeated message ids."""

    drops_repeats = True

    def __init__(self, server):
        self.server = server
        self.name = f"events-{uuid.uuid4().hex[:8]}"
        self.sink = {"type": "nats", "url": server.url(), "topic": self.name}
        self._with_streams(self._create)

    def _with_streams(self, work):
        async def run():
            client = await nats.connect(self.server.url(), connect_timeout=ANSWER_SECONDS)
            try:
                return await work(client.jetstream(timeout=ANSWER_SECONDS))
            finally:
                await client.close()

        return asyncio.run(run())

    async def _create(self, streams):
        await streams.add_stream(StreamConfig(
            name=self.name, subjects=[self.name], storage=StorageType.FILE, retention=RetentionPolicy.LIMITS,
            duplicate_window=DUPLICATE_WINDOW_SECONDS))

    async def _read(self, streams):
        count = (await streams.stream_info(self.name)).state.messages
        reader = await streams.pull_subscribe(self.name, stream=self.name, config=ConsumerConfig(
            deliver_policy=DeliverPolicy.ALL, ack_policy=AckPolicy.NONE))
        found = []
        while len(found) < count:
            for message in await reader.fetch(min(READ_AT_ONCE, count - len(found)), timeout=ANSWER_SECONDS):
                found.append(_arrival(message.headers["aggregate_id"], message.data, message.headers["Nats-Msg-Id"]))
        return found

    def arrivals(self):
        return self._with_streams(self._read)


PLACES = {"kafka": KafkaTopic, "rabbitmq": RabbitQueue, "nats": NatsStream}
