"""deliverd as a process: started, watched through its output, ended."""

import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.waiting import wait_for

RUN_DEADLINE_SECONDS = 240
END_DEADLINE_SECONDS = 120
ROOT = Path(__file__).resolve().parents[2]

# The caller's own environment must not affect the program under test.
KEPT_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME", "ASAN_OPTIONS", "UBSAN_OPTIONS",
                    "TSAN_OPTIONS")


def build_dir():
    return Path(os.environ.get("DELIVERD_BUILD_DIR", ROOT / "build")).resolve()


def program(name):
    path = build_dir() / name
    if not path.exists():
        raise RuntimeError(f"{path} is not there: build it first (./dev build)")
    return path


@dataclass
class Finished:
    """A program that has ended."""

    status: int
    stdout: str
    stderr: str

    def json_lines(self):
        return [json.loads(line) for line in self.stdout.splitlines() if line.strip()]

    def ok(self):
        assert self.status == 0, f"exit status {self.status}\nstdout: {self.stdout}\nstderr: {self.stderr}"
        return self

    def error_line(self, status):
        """The single line on standard error of a command that failed with `status`."""
        assert self.status == status, f"exit status {self.status}, not {status}\n{self.stdout}\n{self.stderr}"
        lines = [line for line in self.stderr.splitlines() if line.strip()]
        assert len(lines) == 1, f"one line wanted on standard error, got:\n{self.stderr}"
        return lines[0]


class Running:
    """A running process, with its output in files."""

    def __init__(self, command, folder, label, environment):
        self.label = label
        self._out_path = folder / f"{label}.stdout"
        self._err_path = folder / f"{label}.stderr"
        with open(self._out_path, "wb") as out, open(self._err_path, "wb") as err:
            self._process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *map(str, command)], stdout=out,
                                             stderr=err, stdin=subprocess.DEVNULL, cwd=folder, env=environment)

    @property
    def pid(self):
        return self._process.pid

    @property
    def stdout(self):
        return self._out_path.read_text(errors="replace")

    @property
    def stderr(self):
        return self._err_path.read_text(errors="replace")

    def status(self):
        """None while it runs; the negated number of the signal that ended it."""
        return self._process.poll()

    def alive(self):
        return self.status() is None

    def send(self, number):
        self._process.send_signal(number)

    def kill9(self):
        self._process.kill()
        self._process.wait(END_DEADLINE_SECONDS)

    def stop_outside_a_transaction(self, store):
        """SIGSTOP for the whole process, renewals included. A process stopped while it holds SQLite's write lock would
        block everybody while it sleeps, and no lease can prevent that."""

        def stopped():
            self.send(signal.SIGSTOP)
            if store.writable():
                return True
            self.send(signal.SIGCONT)
            return False

        wait_for(stopped, 10, "a moment without a transaction")

    def terminate(self):
        self.send(signal.SIGTERM)

    def wait(self, deadline_seconds=END_DEADLINE_SECONDS):
        try:
            return self._process.wait(deadline_seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.label} did not end within {deadline_seconds} s; standard error:\n"
                                 + self.stderr[-4000:]) from None

    def wait_for_stderr(self, text, deadline_seconds=20):
        def seen():
            return text in self.stderr or (not self.alive() and self._fail(text))

        wait_for(seen, deadline_seconds, lambda: f"{text!r} from {self.label}:\n{self.stderr[-4000:]}")

    def _fail(self, text):
        raise AssertionError(f"{self.label} ended with {self.status()} before it said {text!r}:\n{self.stderr[-4000:]}")

    def end(self):
        """Kills it if it still runs. For teardown."""
        if self.alive():
            self.kill9()


class Programs:
    """Starts programs in a test's folder and ends them with the test."""

    def __init__(self, folder):
        self.folder = folder
        self._running = []
        self._count = 0

    def environment(self, extra=None, failpoints=None):
        kept = {name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ}
        kept["HOME"] = str(self.folder)
        if failpoints:
            kept["DELIVERD_FAILPOINTS"] = failpoints
        return kept | (extra or {})

    def run(self, *args, env=None, name="deliverd", deadline_seconds=RUN_DEADLINE_SECONDS, stdin=""):
        """Runs a program of the build folder to its end."""
        done = subprocess.run([program(name), *map(str, args)], cwd=self.folder, env=self.environment(env),
                              capture_output=True, timeout=deadline_seconds, input=stdin.encode())
        return Finished(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def start(self, *args, env=None, failpoints=None, name=None):
        """Starts deliverd (the build with failpoints when some are given) and leaves it running."""
        name = name or ("deliverd-failpoints" if failpoints else "deliverd")
        return self.start_command([program(name), *args], env, failpoints)

    def start_command(self, command, env=None, failpoints=None):
        self._count += 1
        label = f"{self._count}-{Path(str(command[0])).name}"
        running = Running(command, self.folder, label, self.environment(env, failpoints))
        self._running.append(running)
        return running

    def end_all(self):
        for running in self._running:
            running.end()
            print(f"--- {running.label} ended with {running.status()}; end of its standard error:\n"
                  + running.stderr[-3000:])
