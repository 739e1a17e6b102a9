"""A TCP proxy between deliverd and PostgreSQL whose connections a test can cut."""

import socket
import struct
import threading


class Proxy:
    """Forwards 127.0.0.1:port to `target_port`. cut() resets open connections; refuse(True) resets new ones."""

    def __init__(self, target_port):
        self._target_port = target_port
        self._lock = threading.Lock()
        self._pairs = set()
        self._refusing = False
        self._closed = False
        self.accepted = 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            try:
                server = None if self._refusing else socket.create_connection(("127.0.0.1", self._target_port))
            except OSError:
                server = None
            if server is None:
                _reset(client)
                continue
            pair = (client, server)
            with self._lock:
                self._pairs.add(pair)
            for source, target in (pair, pair[::-1]):
                threading.Thread(target=self._pump, args=(source, target, pair), daemon=True).start()

    def _pump(self, source, target, pair):
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        self._drop(pair)

    def _drop(self, pair):
        with self._lock:
            if pair not in self._pairs:
                return
            self._pairs.remove(pair)
        for end in pair:
            _reset(end)

    def connections(self):
        with self._lock:
            return len(self._pairs)

    def cut(self):
        """Resets every open connection; returns their number."""
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            self._drop(pair)
        return len(pairs)

    def refuse(self, refusing):
        self._refusing = refusing

    def close(self):
        # shutdown wakes the thread in accept(); close alone does not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()


def _reset(end):
    try:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()
