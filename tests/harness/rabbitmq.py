"""A RabbitMQ server for the tests: temporary folder, free ports, no plugins, its own epmd.

    python -m harness.rabbitmq [--tls]

starts one for a test in another language. It prints the server's address as one line of JSON. Then it reads one command
per line (kill9, start, stop, pause, resume, keep, alarm, calm), answers each with "ok", and removes the server when its
input ends.
"""

import base64
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from harness.certificates import Authority
from harness.ports import free_port
from harness.server_process import STOP_DEADLINE_SECONDS, PausableServer

CALL_DEADLINE_SECONDS = 120
HOME_CANDIDATES = "/usr/lib/rabbitmq/lib"
SERVER_USER = "rabbitmq"  # of the package; used where the tests run as root
USER, PASSWORD = "guest", "guest"
READER, READER_PASSWORD = "reader", "reads-only"  # may read everything, write and configure nothing
MAX_MESSAGE_BYTES = 512 * 1024  # small, so that a message too large for the server is cheap

# Small, because it shares the machine. No memory watermark: tests raise alarms themselves.
SETTINGS = {
    "log.console": "true",
    "log.console.level": "warning",
    "log.file": "false",
    "vm_memory_high_watermark.absolute": "1GiB",
    "disk_free_limit.absolute": "1MB",
    "max_message_size": str(MAX_MESSAGE_BYTES),
    "loopback_users": "none",
}


def _server_home():
    homes = sorted(Path(HOME_CANDIDATES).glob("rabbitmq_server-*"))
    if not homes:
        raise RuntimeError("RabbitMQ was not found: install the package rabbitmq-server")
    return homes[-1]


def _as_server_user():
    """A command prefix that runs a program as an ordinary user and ends it when this process dies."""
    prefix = ["setpriv", "--pdeathsig", "KILL"]
    if os.geteuid() == 0:
        prefix += ["--reuid", SERVER_USER, "--regid", SERVER_USER, "--init-groups"]
    return prefix


def _password_hash(password):
    salt = b"test"
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def _definitions():
    users = [(USER, PASSWORD, "administrator"), (READER, READER_PASSWORD, "")]
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    return {
        "vhosts": [{"name": "/"}],
        "users": [{"name": name, "password_hash": _password_hash(password), "tags": tags,
                   "hashing_algorithm": "rabbit_password_hashing_sha256"} for name, password, tags in users],
        "permissions": [{"user": USER, "vhost": "/"} | everything,
                        {"user": READER, "vhost": "/"} | everything | {"configure": "", "write": ""}],
    }


def _greets(port):
    """Whether an AMQP server answers a client's first eight bytes."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as client:
            client.sendall(b"AMQP\x00\x00\x09\x01")
            return client.recv(1) == b"\x01"  # a method frame: connection.start
    except OSError:
        return False


class RabbitServer(PausableServer):
    name = "RabbitMQ"
    start_deadline_seconds = 60

    def __init__(self, settings=None, tls=False, parent_folder=None):
        super().__init__("deliverd-rabbit-", parent_folder)
        self.port, self._distribution_port, self._epmd_port = free_port(), free_port(), free_port()
        self.tls_port = free_port() if tls else None
        self._node = f"deliverd{self.port}@localhost"
        self._cookie = os.urandom(16).hex()
        self._epmd = None
        self._vhosts = 0
        with self._setting_up():
            self._write_folder(SETTINGS | (settings or {}))

    def _write_folder(self, settings):
        settings |= {"listeners.tcp.1": f"127.0.0.1:{self.port}", "load_definitions": self.folder / "definitions.json"}
        if self.tls_port:
            certificate, key = Authority(self.folder).issue("server")
            settings |= {"listeners.ssl.1": f"127.0.0.1:{self.tls_port}",
                         "ssl_options.cacertfile": self.ca_file,
                         "ssl_options.certfile": certificate,
                         "ssl_options.keyfile": key,
                         "ssl_options.verify": "verify_none"}
        (self.folder / "rabbitmq.conf").write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
        (self.folder / "definitions.json").write_text(json.dumps(_definitions()))
        (self.folder / "enabled_plugins").write_text("[].\n")
        (self.folder / "env.conf").write_text("")  # in place of the machine's own
        cookie = self.folder / ".erlang.cookie"
        cookie.write_text(self._cookie)
        cookie.chmod(0o400)
        if os.geteuid() == 0:
            for path in [self.folder, *self.folder.iterdir()]:
                shutil.chown(path, SERVER_USER, SERVER_USER)

    def _environment(self):
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
        return kept | {
            "HOME": str(self.folder),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self._node,
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "env.conf"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-start_epmd false",
            # The script then becomes the server instead of starting it as a child: signals reach it.
            "RUNNING_UNDER_SYSTEMD": "true",
        }

    @property
    def ca_file(self):
        return self.folder / "ca.pem"

    def _launch(self):
        if self._epmd is None:
            self._epmd = self._run_as_server("epmd", "-port", self._epmd_port, "-address", "127.0.0.1")
        return self._run_as_server(_server_home() / "sbin" / "rabbitmq-server")

    def _run_as_server(self, *command):
        return self._spawn(*_as_server_user(), *command, environment=self._environment())

    def _is_ready(self):
        if self._epmd.poll() is not None:
            raise RuntimeError(f"RabbitMQ's epmd ended with {self._epmd.poll()}: {self.log_tail()}")
        return _greets(self.port)

    def remove(self):
        self.kill9()
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait(STOP_DEADLINE_SECONDS)
            self._epmd = None
        super().remove()

    def url(self, vhost="/", port=None, user=USER, password=PASSWORD):
        return f"amqp://{user}:{password}@127.0.0.1:{port or self.port}/{quote(vhost, safe='')}"

    def tls_url(self, vhost="/"):
        return self.url(vhost, self.tls_port).replace("amqp:", "amqps:", 1)

    def call(self, expression):
        """Evaluates an Erlang expression inside the server: rabbitmqctl without its start-up time."""
        command = ["erl_call", "-sname", self._node, "-c", self._cookie, "-e"]
        answer = subprocess.run(command, input=expression + ".\n", env=self._environment(), capture_output=True,
                                text=True, timeout=CALL_DEADLINE_SECONDS, check=False)
        if answer.returncode != 0 or not answer.stdout.startswith("{ok,"):
            raise RuntimeError(f"RabbitMQ refused {expression}: {answer.stdout}{answer.stderr}")
        return answer.stdout[len("{ok, "):-1]

    def create_vhost(self):
        """Creates a virtual host in which both users have permissions; returns its name."""
        self._vhosts += 1
        name = f"t{self._vhosts}_{os.getpid()}"
        self.call(f'ok = rabbit_vhost:add(<<"{name}">>, <<"test">>), '
                  f'ok = rabbit_auth_backend_internal:set_permissions(<<"{USER}">>, <<"{name}">>, <<".*">>, <<".*">>, '
                  f'<<".*">>, <<"test">>), '
                  f'ok = rabbit_auth_backend_internal:set_permissions(<<"{READER}">>, <<"{name}">>, <<"">>, <<"">>, '
                  f'<<".*">>, <<"test">>)')
        return name

    def drop_vhost(self, name):
        self.call(f'rabbit_vhost:delete(<<"{name}">>, <<"test">>)')

    def keep_definitions(self):
        """From now on declared queues survive a kill9(). By itself the server writes them a moment later."""
        self.call("dumped = mnesia:dump_log()")

    def set_memory_alarm(self, on):
        """While it is on, the server accepts no publishes (connection.blocked)."""
        self.call("rabbit_alarm:{}_alarm({})".format(
            "set" if on else "clear", "{{resource_limit, memory, node()}, []}" if on
            else "{resource_limit, memory, node()}"))


def main(arguments):
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with RabbitServer(tls="--tls" in arguments) as server:
        where = {"url": server.url()}
        if server.tls_port:
            where |= {"tls_url": server.tls_url(), "ca_file": str(server.ca_file)}
        print(json.dumps(where), flush=True)
        words = {"kill9": server.kill9, "start": server.start, "stop": server.stop, "pause": server.pause,
                 "resume": server.resume, "keep": server.keep_definitions, "alarm": lambda: server.set_memory_alarm(True),
                 "calm": lambda: server.set_memory_alarm(False)}
        for line in sys.stdin:
            words[line.strip()]()
            print("ok", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
