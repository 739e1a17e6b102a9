"""Clients that are silent, slow or many: the server keeps serving the others."""

import contextlib
import http.client
import json
import os
import resource
import socket

import pytest
from harness.ports import free_port
from harness.process import program
from harness.stores import write_config
from harness.waiting import wait_for
from harness.web import Dripping, get

IDLE_CONNECTIONS = 5000
DEFAULT_MAX_CONNECTIONS = 1024  # of `server.max_connections`
SPARE_DESCRIPTORS = 500  # what the tests themselves have open
HALF_A_HEADER = b"POST /healthz HTTP/1.1\r\nHost: local"
DEADLINE_SECONDS = 60


@pytest.fixture
def many_descriptors():
    """Raises this process's limit so that it can hold all the connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = IDLE_CONNECTIONS + SPARE_DESCRIPTORS
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.fail(f"these tests hold {IDLE_CONNECTIONS} connections open: they need a hard limit of at least {wanted} "
                    f"open files (ulimit -Hn), and it is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Served:
    """`serve` on SQLite without lanes."""

    def __init__(self, programs, store, folder, open_files="1024:", **server):
        """`open_files` is SOFT:HARD; the soft limit is what a login shell usually has."""
        self.port = free_port()
        config = write_config(folder, store, server={"port": self.port} | server)
        self.process = programs.start_command(
            ["prlimit", f"--nofile={open_files}", program("deliverd"), "serve", "--config", config])
        wait_for(lambda: self.status("/readyz") == 200, DEADLINE_SECONDS,
                 lambda: f"serve to be ready: {self.process.stderr[-3000:]}")

    def status(self, path="/healthz"):
        """The status of a request on a new connection; 0 if there was no answer."""
        return get(f"http://127.0.0.1:{self.port}{path}").status

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_SECONDS)

    def open_descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def soft_limit(self):
        return resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE)[0]

    def falls_back_to(self, count):
        wait_for(lambda: self.open_descriptors() <= count, DEADLINE_SECONDS,
                 lambda: f"{count} open descriptors, but there are {self.open_descriptors()}")


@pytest.fixture
def start(programs, sqlite, tmp_path):
    return lambda **server: Served(programs, sqlite, tmp_path, **server)


@pytest.mark.parametrize("beginning", [b"", HALF_A_HEADER], ids=["silent", "half a header"])
def test_five_thousand_idle_connections_block_nobody(start, many_descriptors, beginning):
    served = start(header_timeout_seconds=3600, idle_timeout_seconds=3600)  # waiting does not free a place
    before = served.open_descriptors()
    with contextlib.ExitStack() as idle:
        for number in range(IDLE_CONNECTIONS):
            connection = idle.enter_context(served.connect())
            if beginning:
                connection.sendall(beginning)
            if number % 100 == 99:
                assert served.status() == 200, f"with {number + 1} connections"
        assert [served.status() for _ in range(20)] == [200] * 20
        assert served.open_descriptors() <= before + DEFAULT_MAX_CONNECTIONS
    served.falls_back_to(before)
    assert served.status() == 200


def test_a_connection_in_use_survives_many_silent_ones(start):
    served = start(max_connections=16)
    with contextlib.ExitStack() as idle, contextlib.closing(
            http.client.HTTPConnection("127.0.0.1", served.port, timeout=DEADLINE_SECONDS)) as used:
        used.connect()
        mine = used.sock
        for _ in range(100):
            idle.enter_context(served.connect())
            used.request("GET", "/healthz")
            answer = used.getresponse()
            assert (answer.status, answer.read()) == (200, b'{"status":"ok"}')
        assert used.sock is mine


def test_one_byte_a_second_is_cut_off_while_others_are_served(start):
    served = start(header_timeout_seconds=2, body_timeout_seconds=2)
    before = served.open_descriptors()
    body = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
    slow = [Dripping(served.connect(), beginning) for beginning in [b"G", HALF_A_HEADER, body, body + b"abc"] * 5]
    try:
        waiting, served_meanwhile = list(slow), []

        def all_are_closed():
            nonlocal waiting
            served_meanwhile.append(served.status())
            waiting = [client for client in waiting if not client.is_closed()]
            return not waiting

        wait_for(all_are_closed, DEADLINE_SECONDS, lambda: f"{len(waiting)} slow clients to be closed")
        assert set(served_meanwhile) == {200}
        served.falls_back_to(before)  # the server has closed its ends too, and nothing of the incomplete bodies is left
    finally:
        for client in slow:
            client.socket.close()


def test_the_limit_of_open_files_is_raised_or_reported(start):
    served = start(max_connections=3000)
    wait_for(lambda: served.soft_limit() >= 3000, DEADLINE_SECONDS, "a limit with room for all connections")
    assert "open files" not in served.process.stderr
    served.process.terminate()
    assert served.process.wait() == 0
    tight = start(max_connections=3000, open_files="700:700")
    tight.process.wait_for_stderr("open files")
    line = next(line for line in tight.process.stderr.splitlines() if "open files" in line)
    reported = json.loads(line)
    assert (reported["max_connections"], reported["allowed"]) == (3000, 700)
