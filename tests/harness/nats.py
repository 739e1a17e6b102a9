"""A NATS server with JetStream for the tests: temporary folder, free port."""

import json
import shutil
import socket
import subprocess
from pathlib import Path

from harness.ports import free_port
from harness.server_process import PausableServer

CONNECT_SECONDS = 2
SERVER_CANDIDATES = ("/usr/sbin/nats-server", "/usr/bin/nats-server")

# What a killed server acknowledged is in the kernel: this version writes each message before it acknowledges it,
# and has no setting that also waits for the disk.
SETTINGS = {
    "server_name": "deliverd-test",
    "max_payload": 1048576,
}


def server_program():
    found = shutil.which("nats-server") or next((path for path in SERVER_CANDIDATES if Path(path).exists()), None)
    if found is None:
        raise RuntimeError("nats-server was not found: install the package nats-server")
    return found


def make_certificate(folder):
    """Makes a self-signed certificate for 127.0.0.1 and localhost; returns the paths of certificate and key."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", key, "-out", certificate], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return certificate, key


class NatsServer(PausableServer):
    """user and password: what clients must present. tls: clients must speak TLS; `ca_file` has the certificate.
    jetstream=False: a server without streams.
    """

    name = "NATS"

    def __init__(self, settings=None, user=None, password=None, tls=False, jetstream=True, parent_folder=None):
        super().__init__("deliverd-nats-", parent_folder)
        self.port = free_port()
        self.ca_file = None
        self._user, self._password = user, password
        with self._setting_up():
            self._settings = SETTINGS | self._options(tls, jetstream) | (settings or {})
            # NATS's configuration format includes JSON.
            (self.folder / "server.conf").write_text(json.dumps(self._settings, indent=1), encoding="utf-8")

    def _options(self, tls, jetstream):
        options = {"listen": f"127.0.0.1:{self.port}"}
        if jetstream:
            options["jetstream"] = {"store_dir": str(self.folder / "streams"), "max_memory_store": 256 * 1024 * 1024,
                                    "max_file_store": 4 * 1024 * 1024 * 1024}
        if self._user is not None:
            options["authorization"] = {"user": self._user, "password": self._password}
        if tls:
            self.ca_file, key = make_certificate(self.folder)
            options["tls"] = {"cert_file": str(self.ca_file), "key_file": str(key)}
        return options

    def _launch(self):
        return self._spawn("setpriv", "--pdeathsig", "KILL", server_program(), "-c", self.folder / "server.conf")

    def _is_ready(self):
        """It greets every connection, and listens only after loading its streams."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), CONNECT_SECONDS) as connection:
                return connection.recv(4) == b"INFO"
        except OSError:
            return False

    def url(self, port=None):
        """With user and password if the server requires them; `port` may be that of a proxy."""
        account = "" if self._user is None else f"{self._user}:{self._password}@"
        scheme = "nats" if self.ca_file is None else "tls"
        return f"{scheme}://{account}127.0.0.1:{port or self.port}"
