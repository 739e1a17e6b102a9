"""Accepting orders: wrk sends `POST /api/v1/orders`, pgbench writes the same rows, in turn.

Both wait for the durable commit, with 32 clients at once. pgbench writes the two rows of the order (outbox and
ledger). deliverd also writes an audit record, and reads, checks, digests and answers HTTP requests.
"""

import json
import sqlite3
import statistics
import subprocess
import threading
import time
from pathlib import Path

import usage
from harness.postgres import bin_dir, free_port
from harness.waiting import wait_for
from harness.web import get

HERE = Path(__file__).resolve().parent
CLIENTS = 32
GENERATOR_THREADS = 2
FIRST_KEY = 1_000_000_000_000_000
PATIENCE_SECONDS = 60  # beyond the run itself
PROBE_INTERVAL_SECONDS = 0.1
PROBED_KEY = "bench-probed-order"


def _quantile(sorted_values, part):
    return sorted_values[min(len(sorted_values) - 1, int(part * len(sorted_values)))]


def pgbench(server, name, folder, seconds):
    """The two inserts: prepared statements, four round trips per transaction."""
    for old in folder.glob("two_inserts.*"):
        old.unlink()
    subprocess.run([bin_dir() / "pgbench", "-n", "-M", "prepared", "-c", str(CLIENTS), "-j", str(GENERATOR_THREADS),
                    "-T", str(seconds), "-D", "n=0", "-f", HERE / "two_inserts.sql", "-l", "--log-prefix",
                    folder / "two_inserts", "-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres", name],
                   check=True, capture_output=True, timeout=seconds + PATIENCE_SECONDS)
    taken = sorted(int(line.split()[2]) for log in folder.glob("two_inserts.*") for line in log.open(encoding="utf-8"))
    stored = server.query(name, "SELECT count(*) AS n FROM outbox_orders")[0]["n"]
    return {"per_second": len(taken) / seconds, "p50_ms": _quantile(taken, 0.5) / 1000,
            "p99_ms": _quantile(taken, 0.99) / 1000, "max_ms": taken[-1] / 1000, "errors": len(taken) - stored}


class Serving:
    """`deliverd serve` without a lane on `url`, as long as the block lasts."""

    def __init__(self, programs, url, folder):
        self.port = free_port()
        config = folder / "intake.yaml"
        config.write_text(json.dumps({"database": {"url": url}, "server": {"port": self.port}}), encoding="utf-8")
        self.process = programs.start("serve", "--config", config)
        self.address = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        wait_for(lambda: get(self.address + "/readyz").status == 200, 30, lambda: self.process.stderr)
        return self

    def __exit__(self, *_):
        try:
            self.process.terminate()
            self.process.wait()
        finally:
            self.process.end()


class Probe:
    """Measures how long answers to `path` take while others post, each on a new connection."""

    def __init__(self, address, path):
        self._url = address + path
        self._taken = []
        self._wrong = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self):
        while not self._ended.wait(PROBE_INTERVAL_SECONDS):
            start = time.perf_counter()
            self._wrong += get(self._url).status != 200
            self._taken.append((time.perf_counter() - start) * 1000)

    def stop(self):
        """The 99th percentile in milliseconds, and how many answers were not 200."""
        self._ended.set()
        self._thread.join()
        return _quantile(sorted(self._taken), 0.99), self._wrong


def post_probed_order(serving):
    body = {"idempotency_key": PROBED_KEY, "symbol": "AAPL", "intent": "BUY", "qty": 10}
    answer = get(serving.address + "/api/v1/orders", {"Idempotency-Key": PROBED_KEY, "Content-Type": "application/json"},
                 "POST", json.dumps(body).encode())
    if answer.status != 201:
        raise RuntimeError(f"the first order got {answer.status}: {answer.text}")


def wrk(serving, seconds):
    """Posts orders; returns the figures that wrk reports."""
    command = ["wrk", "-t", str(GENERATOR_THREADS), "-c", str(CLIENTS), "-d", f"{seconds}s", "--timeout", "30s", "-s",
               HERE / "post_orders.lua", serving.address, "--", str(FIRST_KEY)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds + PATIENCE_SECONDS)
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))


def deliverd(programs, url, folder, seconds, count_orders):
    """Errors are those that wrk counts (no answer, 4xx, 5xx), or the answers without a stored order if there are more of
    those: each order has its own key, so every correct answer is a 201. `count_orders()` returns how many are stored."""
    with Serving(programs, url, folder) as serving:
        cpu = usage.cpu_seconds(serving.process.pid)
        watch = usage.Watch(serving.process.pid)
        post_probed_order(serving)
        health, order = (Probe(serving.address, path) for path in ("/healthz", f"/api/v1/orders/{PROBED_KEY}"))
        reported = wrk(serving, seconds)
        health_p99_ms, unhealthy = health.stop()
        get_p99_ms, not_found = order.stop()
        cpu = usage.cpu_seconds(serving.process.pid) - cpu
        watch.stop()
    not_stored = reported["requests"] + 1 - count_orders()  # negative where wrk left before the answer
    return {"per_second": reported["requests"] / (reported["microseconds"] / 1e6), "p50_ms": reported["p50_microseconds"] / 1000,
            "p99_ms": reported["p99_microseconds"] / 1000, "max_ms": reported["max_microseconds"] / 1000,
            "errors": max(reported["errors"], not_stored) + unhealthy + not_found, "healthz_p99_ms": health_p99_ms,
            "get_p99_ms": get_p99_ms, "cpu_seconds": cpu, "peak_mib": watch.peak_mib}


def _medians(runs):
    return {name: round(statistics.median(run[name] for run in runs), 2) for name in runs[0]} | {
        "errors": sum(run["errors"] for run in runs)}


def compared_with_pgbench(server, template, programs, folder, seconds, repeats, say):
    """The two in turn, each on a fresh database. A ratio compares neighbouring runs, because the disk's speed varies."""
    runs = {"pgbench": [], "deliverd": []}
    for number in range(repeats):
        for what, done in runs.items():
            say(f"orders: {what}, run {number + 1} of {repeats}")
            name = server.create_database(template)
            server.query(name, "CHECKPOINT")
            if what == "pgbench":
                done.append(pgbench(server, name, folder, seconds))
            else:
                done.append(deliverd(programs, server.url(name), folder, seconds,
                                     lambda: server.query(name, "SELECT count(*) AS n FROM outbox_orders")[0]["n"]))
            server.drop_database(name)
    ratios = [ours["per_second"] / theirs["per_second"] for ours, theirs in zip(runs["deliverd"], runs["pgbench"])]
    return {"clients": CLIENTS, "seconds": seconds, "ratio": round(statistics.median(ratios), 3),
            "ratio_lowest": round(min(ratios), 3), "ratio_highest": round(max(ratios), 3),
            "pgbench": _medians(runs["pgbench"]), "deliverd": _medians(runs["deliverd"]), "runs": runs}


def on_sqlite(programs, folder, seconds, say):
    """For the record: the same posts, stored in a file."""
    say("orders: deliverd on SQLite")
    path = folder / "intake.db"

    def count_orders():
        with sqlite3.connect(path) as file:
            return file.execute("SELECT count(*) FROM outbox_orders").fetchone()[0]

    figures = deliverd(programs, f"sqlite:{path}", folder, seconds, count_orders)
    return {name: round(value, 2) for name, value in figures.items()}
