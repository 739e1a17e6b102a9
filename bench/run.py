#!/usr/bin/env python3
"""Compares deliverd with the bare ceiling, in one run on one machine: `./dev bench [--quick]`.

  1. bare SQL: claim 500 + acknowledge 500 on one connection (bench/bare.py);
  2. the lane with a sink that does nothing, on the same kind of table; the two alternate, and the report has medians;
  3. the same with a transaction held open throughout, and with a million settled rows in the table;
  4. an idle `serve`: resident memory, CPU, transactions per second;
  5. orders posted to `serve`, compared with pgbench that writes the same rows (bench/intake.py), and on SQLite;
  6. orders sent to a local receiver (bench/worker.py);
  7. events relayed to a real Kafka, compared with bare SQL, and what changes that rate (bench/events.py);
  8. dead letters read from a real Kafka, listed and sent back, compared with bare SQL and librdkafka
     (bench/dead_letters.py).

Prints a table and writes build/bench.json. Exit status 1 if something failed, not if a target is missed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

import bare  # noqa: E402
import dead_letters  # noqa: E402
import events  # noqa: E402
import intake  # noqa: E402
import machine  # noqa: E402
import psycopg  # noqa: E402
import tables  # noqa: E402
import usage  # noqa: E402
import worker  # noqa: E402
from harness.postgres import PostgresServer, free_port  # noqa: E402
from harness.process import Programs, build_dir, program  # noqa: E402
from harness.waiting import wait_for  # noqa: E402
from harness.web import get  # noqa: E402

PARTS = ("memories", "orders", "events", "dead_letters")
BATCH_SIZE = 500
PAYLOAD_BYTES = 200
LANE_DEADLINE_SECONDS = 900
# As in the tests, but with room for the table in memory: the ceiling must be PostgreSQL's, not that of a small cache.
SERVER_SETTINGS = {"shared_buffers": "512MB", "max_wal_size": "8GB", "synchronous_commit": "on"}
FILL = f"""
INSERT INTO outbox_memory (item_id, target_space, payload_md, payload_sha)
SELECT n, 'space-' || n %% 100, rpad(n::text || ' ', {PAYLOAD_BYTES}, 'payload '),
       encode(sha256(convert_to(rpad(n::text || ' ', {PAYLOAD_BYTES}, 'payload '), 'UTF8')), 'hex')
FROM generate_series(%s::bigint, %s::bigint) AS n
"""


class Bench:
    def __init__(self, server, options, folder):
        self.server = server
        self.options = options
        self.folder = folder
        self.programs = Programs(folder)
        self.template = server.create_database()
        self.programs.run("migrate", "--database", server.url(self.template)).ok()

    def prepared(self, settled):
        """Creates a database with the rows to process (and `settled` that are done); returns its name."""
        name = self.server.create_database(self.template)
        rows = self.options.rows
        with psycopg.connect(self.server.url(name), autocommit=True) as connection:
            if settled:
                connection.execute(FILL, (rows + 1, rows + settled))
                connection.execute("UPDATE outbox_memory SET status = 'sent'")
                connection.execute("VACUUM outbox_memory")
            connection.execute(FILL, (1, rows))
            connection.execute("VACUUM (ANALYZE) outbox_memory")
            connection.execute("CHECKPOINT")
        return name

    def measure(self, work, *, settled=0, held_open=False):
        """Runs `work(url)` on a prepared database, with an old snapshot held elsewhere if asked for."""
        name = self.prepared(settled)
        holder = psycopg.connect(self.server.url(name)) if held_open else None
        try:
            if holder:
                holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                holder.execute("SELECT count(*) FROM outbox_memory WHERE outbox_id = 1")
            figures = work(self.server.url(name))
        finally:
            if holder:
                holder.close()
        left = self.server.query(name, "SELECT count(*) AS n FROM outbox_memory WHERE status <> 'sent'")[0]["n"]
        if left:
            raise RuntimeError(f"{left} rows were not processed")
        self.server.drop_database(name)
        return figures

    def bare(self, url):
        rows, seconds = bare.drain(url, BATCH_SIZE)
        return {"rows_per_second": rows / seconds}

    def lane(self, url):
        figures = self.folder / "lane.json"
        figures.unlink(missing_ok=True)
        command = [program("deliverd"), "bench", "--database", url, "--existing", "--rows", str(self.options.rows),
                   "--batch-size", str(BATCH_SIZE), "--json", figures]
        process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *map(str, command)], cwd=self.folder,
                                   env=self.programs.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True)
        watch = usage.Watch(process.pid)
        try:
            output, _ = process.communicate(timeout=LANE_DEADLINE_SECONDS)
        finally:
            watch.stop()
            process.kill()
        if process.returncode != 0:
            raise RuntimeError(f"deliverd bench ended with {process.returncode}: {output}")
        reported = json.loads(figures.read_text(encoding="utf-8"))
        return {"rows_per_second": reported["rows_per_second"], "peak_mib": watch.peak_mib,
                "cpu_seconds_per_million": reported["cpu_seconds_per_million"]}

    def pair(self, title, repeats, **circumstances):
        """Bare and lane in turn; medians and their ratio."""
        runs = {"bare": [], "lane": []}
        for number in range(repeats):
            for what in runs:
                say(f"{title}: {what}, run {number + 1} of {repeats}")
                runs[what].append(self.measure(getattr(self, what), **circumstances))
        median = {what: statistics.median(run["rows_per_second"] for run in done) for what, done in runs.items()}
        return {
            "title": title,
            "bare_rows_per_second": round(median["bare"]),
            "lane_rows_per_second": round(median["lane"]),
            "ratio": round(median["lane"] / median["bare"], 3),
            "lane_peak_mib": round(max(run["peak_mib"] for run in runs["lane"]), 1),
            "lane_cpu_seconds_per_million": round(
                statistics.median(run["cpu_seconds_per_million"] for run in runs["lane"]), 2),
            "runs": runs,
        }

    def idle(self):
        """A `serve` with one lane on an empty table."""
        name = self.server.create_database(self.template)
        port = free_port()
        config = self.folder / "idle.yaml"
        config.write_text(json.dumps({
            "database": {"url": self.server.url(name)}, "server": {"port": port},
            "lanes": {"memories": {"outbox": "memory", "sink": {"type": "none"}}}}), encoding="utf-8")
        serve = self.programs.start("serve", "--config", config)
        try:
            wait_for(lambda: get(f"http://127.0.0.1:{port}/readyz").status == 200, 30, lambda: serve.stderr)
            pause = threading.Event()
            pause.wait(2)  # the start is not the idle state
            say(f"idle serve for {self.options.idle_seconds} s")
            cpu, at, transactions = usage.cpu_seconds(serve.pid), time.monotonic(), self._transactions(name)
            pause.wait(self.options.idle_seconds)
            span = time.monotonic() - at
            figures = {
                "resident_mib": round(usage.resident_mib(serve.pid), 1),
                "cpu_percent_of_a_core": round(100 * (usage.cpu_seconds(serve.pid) - cpu) / span, 2),
                "transactions_per_second": round((self._transactions(name) - transactions) / span, 1),
                "seconds": round(span, 1),
            }
            serve.terminate()
            if serve.wait() != 0:
                raise RuntimeError(f"serve ended with {serve.status()}: {serve.stderr[-2000:]}")
        finally:
            serve.end()
        self.server.drop_database(name)
        return figures

    def memories(self):
        repeats, settled = self.options.repeats, self.options.settled
        single = 1 if self.options.quick else max(1, repeats - 1)
        return {"rows": self.options.rows, "batch_size": BATCH_SIZE, "idle": self.idle(), "pairs": [
            self.pair("nothing else running", repeats),
            self.pair("a transaction held open", single, held_open=True),
            self.pair(f"{settled:,} settled rows in the table", single, settled=settled)]}

    def orders(self):
        seconds = self.options.seconds
        return {
            "intake": intake.compared_with_pgbench(self.server, self.template, self.programs, self.folder, seconds,
                                            self.options.pairs, say),
            "intake_sqlite": intake.on_sqlite(self.programs, self.folder, seconds, say),
            "worker": worker.measure(self.server, self.template, self.programs, self.folder, self.options.orders, say),
        }

    def events(self):
        return events.Events(self.server, self.template, self.programs, self.folder, self.options, say).measure()

    def dead_letters(self):
        return dead_letters.DeadLetters(self.server, self.template, self.programs, self.folder, self.options,
                                        say).measure()

    def _transactions(self, name):
        return self.server.query("postgres", "SELECT xact_commit + xact_rollback AS n FROM pg_stat_database"
                                             " WHERE datname = %s", name)[0]["n"]


def say(text):
    print(f"… {text}", file=sys.stderr, flush=True)


# How much of everything: option, in full, with --quick, what it is.
SIZES = (
    ("rows", 200_000, 20_000, "memories a run works off"),
    ("repeats", 3, 1, "runs of each with memories, in turn"),
    ("settled", 1_000_000, 100_000, "settled rows in the table, in one run"),
    ("idle-seconds", 20, 5, "how long the idle service is watched"),
    ("seconds", 10, 2, "how long orders are posted in each run"),
    ("pairs", 5, 1, "runs of pgbench and deliverd, in turn"),
    ("orders", 20_000, 2_000, "orders sent in each run of the worker"),
    ("events", 1_000_000, 200_000, "events in the backlog"),
    ("event-repeats", 3, 1, "runs of each with events, in turn"),
    ("big-backlog", 5_000_000, 0, "events in the larger backlog"),
    ("published", 5_000_000, 500_000, "published events in the table of the backlog"),
    ("failing-events", 300_000, 100_000, "events of which some aggregates fail"),
    ("other-events", 50_000, 20_000, "events to each of the other sinks"),
    ("rate", 1000, 1000, "events per second from commit to consumer"),
    ("latency-seconds", 20, 8, "how long events are written at that rate"),
    ("dead-letters", 200_000, 20_000, "dead letters read from Kafka"),
    ("dead-letter-repeats", 3, 1, "runs of each with dead letters, in turn"),
    ("listed-letters", 1_000_000, 100_000, "dead letters in the table that is listed"),
    ("retried-letters", 100_000, 20_000, "dead letters sent back at once"),
)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, to see whether it runs")
    parser.add_argument("--only", choices=PARTS, help="one part of it")
    parser.add_argument("--parts", nargs="+", metavar="PART", choices=events.PARTS,
                        help="of the events: " + ", ".join(events.PARTS))
    parser.add_argument("--dead-letter-parts", nargs="+", metavar="PART", choices=dead_letters.PARTS,
                        help="of the dead letters: " + ", ".join(dead_letters.PARTS))
    for name, full, quick, what in SIZES:
        parser.add_argument(f"--{name}", type=int, default=quick if "--quick" in arguments else full,
                            help=f"{what} ({full}; {quick} with --quick)")
    parser.add_argument("--data-folder", help="where the server's temporary folder is made")
    parser.add_argument("--output", type=Path, default=build_dir() / "bench.json")
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="deliverd-bench-") as folder, \
            PostgresServer(SERVER_SETTINGS, options.data_folder) as server:
        bench = Bench(server, options, Path(folder))
        report = {
            "machine": machine.describe(server),
            "command": "./dev bench" + "".join(f" {word}" for word in arguments),
            "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "load_average_before": os.getloadavg()[0],
            "wanted": tables.WANTED,
        }
        for part in PARTS:
            if options.only in (None, part):
                report[part] = getattr(bench, part)()
    print("\n".join(tables.lines(report)))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(f"\nwritten to {os.path.relpath(options.output)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
