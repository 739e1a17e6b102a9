"""The other destinations of events. Each is a context manager that yields the lane's `sink`."""

import asyncio
import contextlib
import subprocess

import nats as nats_client
import pika
from harness.nats import NatsServer
from harness.process import program
from harness.rabbitmq import RabbitServer

NAME = "placed"


@contextlib.contextmanager
def rabbitmq(folder):
    with RabbitServer() as server:
        connection = pika.BlockingConnection(pika.URLParameters(server.url()))
        connection.channel().queue_declare(NAME, durable=True)
        connection.close()
        yield {"type": "rabbitmq", "url": server.url(), "topic": NAME}


@contextlib.contextmanager
def nats(folder):
    async def add_stream(url):
        client = await nats_client.connect(url)
        await client.jetstream().add_stream(name="EVENTS", subjects=[NAME])
        await client.close()

    with NatsServer() as server:
        asyncio.run(add_stream(server.url()))
        yield {"type": "nats", "url": server.url(), "topic": NAME}


@contextlib.contextmanager
def http(folder):
    with subprocess.Popen([program("bench_receiver"), "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as receiver:
        try:
            port = int(receiver.stdout.readline())
            yield {"type": "http", "url": f"http://127.0.0.1:{port}/events"}
        finally:
            receiver.stdin.close()


@contextlib.contextmanager
def nothing(folder):
    yield {"type": "none"}
