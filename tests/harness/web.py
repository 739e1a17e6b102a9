"""One HTTP request whose answer, error or lost connection is a value; and a very slow client."""

import http.client
import json
import socket
import time
import urllib.error
import urllib.request
from dataclasses import dataclass

TIMEOUT_SECONDS = 60


@dataclass
class Page:
    status: int  # 0: no connection
    headers: dict
    text: str

    def json(self):
        return json.loads(self.text)


def get(url, headers=None, method="GET", body=None, timeout_seconds=TIMEOUT_SECONDS, context=None):
    """A body is sent as JSON unless `headers` say otherwise. `context` is for TLS."""
    kind = {"Content-Type": "application/json"} if body else {}
    request = urllib.request.Request(url, headers=kind | (headers or {}), method=method, data=body)
    try:
        with urllib.request.urlopen(request, timeout=timeout_seconds, context=context) as answer:
            return Page(answer.status, dict(answer.headers), answer.read().decode())
    except urllib.error.HTTPError as error:
        return Page(error.code, dict(error.headers), error.read().decode())
    except (OSError, http.client.HTTPException) as error:
        return Page(0, {}, str(error))


class Dripping:
    """A connection that sends one byte per second and never stops."""

    def __init__(self, connection, beginning):
        self.socket = connection
        self.socket.sendall(beginning)
        self.received = b""
        self._next = time.monotonic()

    def is_closed(self):
        """Whether the server has closed the connection. Sends the next byte when it is due."""
        try:
            if time.monotonic() >= self._next:
                self._next += 1
                self.socket.send(b"x")
            data = self.socket.recv(1000, socket.MSG_DONTWAIT)
            self.received += data
            return data == b""
        except BlockingIOError:
            return False
        except OSError:
            return True
