"""A test server as a process: its folder, its log, and how it can end."""

import contextlib
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from harness.waiting import wait_for

STOP_DEADLINE_SECONDS = 60


class ServerProcess:
    """start() … stop(); in between kill9() and restart() any number of times.

    A subclass has a `name` for people, `_launch()`, which starts the server and returns its process, and `_is_ready()`.
    """

    name = None
    start_deadline_seconds = 30
    stop_signal = signal.SIGTERM

    def __init__(self, prefix, parent_folder=None):
        self.folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent_folder))
        self._process = None

    @contextlib.contextmanager
    def _setting_up(self):
        """If the block fails, the folder is removed."""
        try:
            yield
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    @property
    def pid(self):
        return self._process.pid

    @property
    def log_path(self):
        return self.folder / "server.log"

    def log_tail(self):
        return self.log_path.read_text(errors="replace")[-2000:]

    def _spawn(self, *command, environment=None):
        """Runs a program in the folder, with its output in the log."""
        with open(self.log_path, "ab") as log:
            return subprocess.Popen([*map(str, command)], env=environment, cwd=self.folder, stdin=subprocess.DEVNULL,
                                    stdout=log, stderr=log)

    def start(self):
        self._process = self._launch()
        wait_for(self.answers, self.start_deadline_seconds, lambda: f"{self.name} to start: {self.log_tail()}")
        return self

    def answers(self):
        """Whether it accepts clients; RuntimeError if it has ended by itself."""
        status = self._process.poll()
        if status is not None:
            raise RuntimeError(f"{self.name} ended with {status}: {self.log_tail()}")
        return self._is_ready()

    def stop(self, how=None):
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(how or self.stop_signal)
            self._process.send_signal(signal.SIGCONT)  # ends a paused one too
            try:
                self._process.wait(STOP_DEADLINE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(STOP_DEADLINE_SECONDS)
        self._process = None

    def kill9(self):
        """Like a power failure, except that the disk keeps what was written."""
        self.stop(signal.SIGKILL)

    def restart(self):
        self.stop()
        return self.start()

    def remove(self):
        self.kill9()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(self, *_):
        self.remove()


class PausableServer(ServerProcess):
    """A server of one process: it can also be paused."""

    def pause(self):
        """When this returns, the server keeps its connections and its port but does not answer."""
        self._process.send_signal(signal.SIGSTOP)
        wait_for(self._stands_still, STOP_DEADLINE_SECONDS, f"every thread of {self.name} to stand still")

    def _stands_still(self):
        try:
            states = [stat.read_text().rpartition(")")[2].split()[0]
                      for stat in Path(f"/proc/{self._process.pid}/task").glob("*/stat")]
        except (FileNotFoundError, ProcessLookupError):  # a thread ended meanwhile
            return False
        return set(states) == {"T"}

    def resume(self):
        self._process.send_signal(signal.SIGCONT)
