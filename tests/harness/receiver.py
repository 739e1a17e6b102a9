"""An HTTP receiver inside the test: records requests and answers by a script.

Written on sockets, because the tests need what http.server hides: a connection dropped in the middle of
an exchange, an answer held back, and a few thousand requests per second.
"""

import collections
import json
import socket
import socketserver
import struct
import threading
import time
from dataclasses import dataclass, field

from harness.waiting import wait_for

HOLD_LIMIT_SECONDS = 300


@dataclass
class Call:
    number: int  # 1 for the first request
    attempt: int  # 1 for the first request with this key
    key: str
    path: str
    headers: dict
    raw_body: bytes
    at: float  # time.monotonic() when it had come in

    @property
    def body(self):
        return json.loads(self.raw_body)


@dataclass
class Answer:
    status: int = 200
    body: object = None  # None: {"memory_id": "mem-<outbox_id>"}
    headers: dict = field(default_factory=dict)
    drop: bool = False  # close the connection instead of answering
    hold: threading.Event | None = None  # answer only once this is set


def answers(*statuses, then=200):
    """A script: these statuses in turn for each key, then always `then`."""

    def script(call):
        return Answer(statuses[call.attempt - 1] if call.attempt <= len(statuses) else then)

    return script


class Receiver:
    def __init__(self):
        self._lock = threading.Lock()
        self._calls = []
        self._attempts = collections.Counter()
        self._script = lambda call: Answer()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.receiver = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def port(self):
        return self._server.server_address[1]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/memories"

    def answer_with(self, script):
        """`script(call)` is an Answer, called on the connection's thread."""
        self._script = script

    @property
    def calls(self):
        with self._lock:
            return list(self._calls)

    def count(self):
        with self._lock:
            return len(self._calls)

    def times(self):
        """How often each key arrived."""
        with self._lock:
            return collections.Counter(self._attempts)

    def take(self, path, headers, raw_body):
        with self._lock:
            key = headers.get("idempotency-key", "")
            self._attempts[key] += 1
            call = Call(len(self._calls) + 1, self._attempts[key], key, path, headers, raw_body,
                        time.monotonic())
            self._calls.append(call)
        return call, self._script(call)

    def wait_until_read(self, deadline_seconds):
        """Waits until everything that former clients sent has been read."""
        with socket.create_connection(("127.0.0.1", self.port), deadline_seconds) as last:
            last.shutdown(socket.SHUT_WR)
            last.recv(1)  # when it ends, all earlier connections have been accepted
        wait_for(lambda: self._server.open_connections() == 0, deadline_seconds, "the last requests to be read")

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, *how):
        super().__init__(*how)
        self._lock = threading.Lock()
        self._open = 0

    def open_connections(self):
        with self._lock:
            return self._open

    def process_request(self, request, client_address):
        with self._lock:
            self._open += 1
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        super().shutdown_request(request)
        with self._lock:
            self._open -= 1

    def handle_error(self, request, client_address):
        """Killed clients are part of the tests."""


class _Handler(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True
    timeout = HOLD_LIMIT_SECONDS

    def handle(self):
        while self._one():
            pass

    def _one(self):
        request = self.rfile.readline(65536).decode("latin-1").split()
        if not request:
            return False
        headers = {}
        while (line := self.rfile.readline(65536)) not in (b"\r\n", b"\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        if headers.get("expect", "").lower() == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        length = int(headers.get("content-length", 0))
        raw_body = self.rfile.read(length)
        if len(raw_body) < length:
            return False
        call, answer = self.server.receiver.take(request[1], headers, raw_body)
        if answer.hold is not None:
            answer.hold.wait(HOLD_LIMIT_SECONDS)
        if answer.drop:
            # An RST, as when a process dies.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        self.wfile.write(_encode(call, answer))
        return True


def _encode(call, answer):
    body = answer.body
    if body is None:
        body = {"memory_id": f"mem-{call.body['outbox_id']}"} if answer.status < 300 else {}
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {answer.status} Answer", f"Content-Length: {len(payload)}", "Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + payload
