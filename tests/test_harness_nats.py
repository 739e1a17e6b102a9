"""The tests' NATS server: what it acknowledged survives kill -9, and it admits only authorised clients."""

import asyncio
import ssl

import nats
import pytest
from harness.nats import NatsServer
from harness.waiting import wait_for

WAIT_SECONDS = 60


async def _quiet(_error):
    """These tests lose connections on purpose."""


async def connected(server, work, **options):
    client = await nats.connect(server.url(), allow_reconnect=False, error_cb=_quiet, connect_timeout=WAIT_SECONDS,
                                **options)
    try:
        return await work(client)
    finally:
        await client.close()


async def _publish(client):
    streams = client.jetstream(timeout=WAIT_SECONDS)
    await streams.add_stream(name="S", subjects=["s.>"])
    return [(await streams.publish("s.a", b"x", headers={"Nats-Msg-Id": str(i)})).seq for i in range(100)]


async def _count(client):
    return (await client.jetstream(timeout=WAIT_SECONDS).stream_info("S")).state.messages


def test_what_was_acknowledged_survives_a_killed_server():
    with NatsServer() as server:
        assert asyncio.run(connected(server, _publish)) == list(range(1, 101))
        server.kill9()
        server.start()
        assert asyncio.run(connected(server, _count)) == 100
        server.restart()
        assert asyncio.run(connected(server, _count)) == 100


def test_a_paused_server_answers_once_it_is_resumed():
    with NatsServer() as server:
        server.pause()
        assert not server.answers()
        server.resume()
        wait_for(server.answers, WAIT_SECONDS, "the resumed server to answer")
        server.pause()  # also a stopped one can be removed


def test_user_password_and_tls_are_demanded():
    with NatsServer(user="relay", password="s3cret", tls=True) as server:
        trusting = ssl.create_default_context(cafile=server.ca_file)
        assert len(asyncio.run(connected(server, _publish, tls=trusting))) == 100
        with pytest.raises(Exception, match="certificate verify failed"):
            asyncio.run(connected(server, _count, tls=ssl.create_default_context()))
        server._password = "wrong"
        with pytest.raises(Exception, match="Authorization Violation"):
            asyncio.run(connected(server, _count, tls=trusting))
