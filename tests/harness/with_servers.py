"""Runs a command with its own servers, started in parallel:

    python -m harness.with_servers [--only postgres,kafka…] -- COMMAND…

exports the address of each server (SERVERS has the names of the variables) and returns the command's exit status. The
servers are stopped and removed whatever happens to the command.
"""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from harness.kafka import kafka_or_reason
from harness.nats import NatsServer
from harness.postgres import PostgresServer
from harness.rabbitmq import READER, READER_PASSWORD, RabbitServer


def _rabbitmq_variables(server):
    """One shared server, and the command with which a test starts its own server, which it may kill (see harness/rabbitmq.py)."""
    return {
        "DELIVERD_TEST_RABBITMQ_URL": server.url(),
        "DELIVERD_TEST_RABBITMQ_READER_URL": server.url(user=READER, password=READER_PASSWORD),
        "DELIVERD_TEST_RABBITMQ_TLS_URL": server.tls_url(),
        "DELIVERD_TEST_RABBITMQ_CA_FILE": str(server.ca_file),
        "DELIVERD_TEST_RABBITMQ_OWN": f"cd '{Path(__file__).parents[1]}' && exec '{sys.executable}' -m harness.rabbitmq",
    }


# name: how to create it, and what to export once it runs
SERVERS = {
    "postgres": (PostgresServer.never_stopped, lambda server: {"DELIVERD_TEST_POSTGRES_URL": server.url()}),
    "kafka": (kafka_or_reason, lambda server: server.exports()),
    "rabbitmq": (lambda: RabbitServer(tls=True), _rabbitmq_variables),
    "nats": (NatsServer, lambda server: {"DELIVERD_TEST_NATS_URL": server.url()}),
}


def _end(number, _frame):
    raise SystemExit(128 + number)


class _Keeper:
    """Starts and stops a server on its own thread: a server dies with the thread that started it."""

    def __init__(self, make, variables):
        self._make, self._variables = make, variables
        self._ready, self._over = threading.Event(), threading.Event()
        self._fault = None
        self.exports = {}
        self._thread = threading.Thread(target=self._keep)
        self._thread.start()

    def _keep(self):
        try:
            with self._make() as server:
                self.exports = self._variables(server)
                self._ready.set()
                self._over.wait()
        except BaseException as fault:  # reported by wait()
            self._fault = fault
        finally:
            self._ready.set()

    def wait(self):
        self._ready.wait()
        if self._fault is not None:
            raise self._fault
        return self.exports

    def stop(self):
        self._over.set()
        self._thread.join()


def main(arguments):
    wanted = list(SERVERS)
    if arguments[:1] == ["--only"] and len(arguments) > 1:
        wanted, arguments = list(filter(None, arguments[1].split(","))), arguments[2:]  # none of an empty list
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    if not arguments or set(wanted) - set(SERVERS):
        print(f"usage: python -m harness.with_servers [--only {','.join(SERVERS)}] -- COMMAND…", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGHUP, _end)
    keepers = [_Keeper(*SERVERS[name]) for name in wanted]
    try:
        environment = dict(os.environ)
        for keeper in keepers:
            environment |= keeper.wait()
        with subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *arguments], env=environment) as command:
            try:
                status = command.wait()
            except BaseException:
                command.terminate()
                raise
    finally:
        for keeper in keepers:
            keeper.stop()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
