"""A NATS server with JetStream of the tests' own: temporary folder, free port."""

import json
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from harness.postgres import free_port
from harness.waiting import wait_for

START_DEADLINE_SECONDS = 30
STOP_DEADLINE_SECONDS = 30
CONNECT_SECONDS = 2
SERVER_CANDIDATES = ("/usr/sbin/nats-server", "/usr/bin/nats-server")

# What a killed server has acknowledged is with the kernel: this version writes each message before its acknowledgement
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
    """A certificate for 127.0.0.1 and localhost that signs itself; answers the paths of certificate and key."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", key, "-out", certificate], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return certificate, key


def _is_stopped(thread):
    return (thread / "stat").read_text().rpartition(")")[2].split()[0] == "T"


class NatsServer:
    """start() … stop(); between them kill9(), restart(), pause() and resume() as often as a test likes.

    user and password: what clients must present. tls: clients must speak TLS; `ca_file` has the certificate.
    jetstream=False: a server without streams.
    """

    def __init__(self, settings=None, user=None, password=None, tls=False, jetstream=True, parent_folder=None):
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="deliverd-nats-", dir=parent_folder))
        self.ca_file = None
        self._user, self._password = user, password
        self._process = None
        try:
            self._settings = SETTINGS | self._options(tls, jetstream) | (settings or {})
            # NATS reads JSON as its own format.
            (self.folder / "server.conf").write_text(json.dumps(self._settings, indent=1), encoding="utf-8")
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

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

    @property
    def log_path(self):
        return self.folder / "server.log"

    def log_tail(self):
        return self.log_path.read_text(errors="replace")[-2000:]

    def start(self):
        command = ["setpriv", "--pdeathsig", "KILL", server_program(), "-c", self.folder / "server.conf"]
        with open(self.log_path, "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        wait_for(self.answers, START_DEADLINE_SECONDS, lambda: "NATS to start: " + self.log_tail())
        return self

    def answers(self):
        """Whether it greets whoever connects; it listens once its streams are read."""
        status = self._process.poll()
        if status is not None:
            raise RuntimeError(f"NATS ended with {status}: {self.log_tail()}")
        try:
            with socket.create_connection(("127.0.0.1", self.port), CONNECT_SECONDS) as connection:
                return connection.recv(4) == b"INFO"
        except OSError:
            return False

    def stop(self, how=signal.SIGTERM):
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(how)
            self._process.send_signal(signal.SIGCONT)
            try:
                self._process.wait(STOP_DEADLINE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(STOP_DEADLINE_SECONDS)
        self._process = None

    def kill9(self):
        self._process.kill()
        self._process.wait(STOP_DEADLINE_SECONDS)
        self._process = None

    def restart(self):
        self.stop()
        return self.start()

    def pause(self):
        """It keeps its connections and its port, and answers nobody."""
        self._process.send_signal(signal.SIGSTOP)
        threads = Path(f"/proc/{self._process.pid}/task")
        wait_for(lambda: all(_is_stopped(thread) for thread in threads.iterdir()), STOP_DEADLINE_SECONDS,
                 "NATS to stand still")

    def resume(self):
        self._process.send_signal(signal.SIGCONT)

    def remove(self):
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, port=None):
        """With user and password where the server wants them; `port` is that of a proxy before it."""
        account = "" if self._user is None else f"{self._user}:{self._password}@"
        scheme = "nats" if self.ca_file is None else "tls"
        return f"{scheme}://{account}127.0.0.1:{port or self.port}"

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(self, *_):
        self.remove()
