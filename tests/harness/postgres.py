"""A PostgreSQL server for the tests: temporary folder, free port."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import psycopg
from psycopg.rows import dict_row

from harness.ports import free_port
from harness.server_process import STOP_DEADLINE_SECONDS, ServerProcess
from harness.waiting import wait_for

BIN_CANDIDATES = ("/usr/lib/postgresql/15/bin", "/usr/lib/postgresql/16/bin", "/usr/lib/postgresql/17/bin")

# Durable, because tests kill it and check what is left. Small, because it shares the machine.
SETTINGS = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "30min",
    "wal_level": "logical",
    "autovacuum_naptime": "10s",
    "log_min_messages": "warning",
}

# For a server that no test stops: no test can see whether it waits for the disk, and waiting took half of their time.
NEVER_STOPPED = {"fsync": "off", "full_page_writes": "off", "jit": "off", "max_wal_size": "256MB"}
# Its files are here if there is room: creating a database takes 20 ms there, 120 ms on a disk.
IN_MEMORY = Path("/dev/shm")
MEMORY_WANTED_BYTES = 4 << 30


def bin_dir():
    for candidate in BIN_CANDIDATES:
        if os.path.exists(f"{candidate}/initdb"):
            return Path(candidate)
    found = shutil.which("initdb")
    if found is None:
        raise RuntimeError("PostgreSQL's initdb was not found: install the package postgresql-15")
    return Path(found).resolve().parent


def _as_server_user(death_signal):
    """A command prefix that runs a program as an ordinary user and ends it when this process dies."""
    prefix = ["setpriv", "--pdeathsig", death_signal]
    if os.geteuid() == 0:  # PostgreSQL refuses root
        prefix += ["--reuid", "postgres", "--regid", "postgres", "--init-groups"]
    return prefix


def _runs(pid):
    """Whether the process still runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class PostgresServer(ServerProcess):
    """stop() is the fast shutdown; with SIGQUIT the immediate one, a crash with recovery at the next start."""

    name = "PostgreSQL"
    stop_signal = signal.SIGINT

    def __init__(self, settings=None, parent_folder=None):
        super().__init__("deliverd-pg-", parent_folder)
        self.port = free_port()
        self._data = self.folder / "data"
        self._settings = SETTINGS | (settings or {})
        self._databases = 0
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        with self._setting_up():
            self._run("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8",
                      "--locale=C.UTF-8", "--no-sync")
            with open(self._data / "postgresql.conf", "a", encoding="utf-8") as conf:
                for name, value in self._settings.items():
                    conf.write(f"{name} = '{value}'\n")

    @classmethod
    def never_stopped(cls):
        in_memory = os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free >= MEMORY_WANTED_BYTES
        return cls(NEVER_STOPPED, IN_MEMORY if in_memory else None)

    def _run(self, program, *args):
        subprocess.run([*_as_server_user("KILL"), bin_dir() / program, *args], check=True, cwd=self.folder,
                       stdout=subprocess.DEVNULL)

    def _launch(self):
        return self._spawn(*_as_server_user("QUIT"), bin_dir() / "postgres", "-D", self._data, "-p", self.port,
                           "-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={self.folder}")

    def _is_ready(self):
        try:
            with psycopg.connect(self.url(), connect_timeout=2):
                return True
        except psycopg.OperationalError:
            return False

    def kill9(self):
        """Like a power failure: kills the postmaster and every backend at once, so nothing more is written."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for pid in [self._process.pid, *map(int, children)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._process.wait(STOP_DEADLINE_SECONDS)
        self._process = None
        wait_for(lambda: not any(_runs(pid) for pid in children), STOP_DEADLINE_SECONDS, "the backends to be gone")

    def restart_immediate(self):
        self.stop(signal.SIGQUIT)
        self.start()

    def remove(self):
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database="postgres", port=None):
        return f"postgres://postgres@127.0.0.1:{port or self.port}/{database}"

    def create_database(self, template=None):
        """Creates a database; returns its name."""
        self._databases += 1
        name = f"t{self._databases}_{os.getpid()}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}" + (f" TEMPLATE {template}" if template else ""))
        return name

    def drop_database(self, name):
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def query(self, database, sql, *parameters):
        """Rows as dictionaries, from a new connection, committed."""
        with psycopg.connect(self.url(database), autocommit=True, row_factory=dict_row) as connection:
            cursor = connection.execute(sql, parameters or None)
            return cursor.fetchall() if cursor.description else []
