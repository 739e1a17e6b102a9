#!/usr/bin/env python3
"""Measures deliverd beside the bare ceiling, in one run on one machine: `./dev bench [--quick]`.

  1. bare SQL: claim 500 + acknowledge 500 on one connection (bench/bare.py);
  2. the lane with a sink that does nothing, on the same kind of table; the two alternate, medians count;
  3. the same with a transaction held open all the time, and with a million settled rows beside it;
  4. an idle `serve`: resident memory, CPU, transactions a second.

Prints a table and writes build/bench.json. Exit status 1 when something failed, not when a figure is missed.
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

import psycopg  # noqa: E402

import bare  # noqa: E402
import machine  # noqa: E402
import usage  # noqa: E402
from harness.postgres import PostgresServer, free_port  # noqa: E402
from harness.process import Programs, build_dir, program  # noqa: E402
from harness.waiting import wait_for  # noqa: E402
from harness.web import get  # noqa: E402

BATCH_SIZE = 500
PAYLOAD_BYTES = 200
WANTED = {"ratio": 0.8, "idle_mib": 40, "working_mib": 80, "idle_cpu_percent": 1}
LANE_DEADLINE_SECONDS = 900
# As in the tests, but with room for the table in memory: the ceiling is to be PostgreSQL's, not a small cache's.
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
        """A fresh database with the rows to work off (and `settled` that are done); answers its name."""
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
            raise RuntimeError(f"{left} rows were not worked off")
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
        told = json.loads(figures.read_text(encoding="utf-8"))
        return {"rows_per_second": told["rows_per_second"], "peak_mib": watch.peak_mib,
                "cpu_seconds_per_million": told["cpu_seconds_per_million"]}

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

    def _transactions(self, name):
        return self.server.query("postgres", "SELECT xact_commit + xact_rollback AS n FROM pg_stat_database"
                                             " WHERE datname = %s", name)[0]["n"]


def say(text):
    print(f"… {text}", file=sys.stderr, flush=True)


def judged(name, value, unit, wanted, at_least=False):
    """One line: a figure and whether it is what was wanted."""
    met = value >= wanted if at_least else value < wanted
    return f"{name:<24}{value:>8.2f} {unit:<4} {'≥' if at_least else '<'} {wanted}: {'met' if met else 'MISSED'}"


def table(report):
    where, idle, pairs = report["machine"], report["idle"], report["pairs"]
    yield (f"{where['cores']} cores, {where['cpu']}, {where['memory_gib']} GiB, "
           f"Linux {where['kernel']}, {where['system']}")
    yield (f"PostgreSQL {where['postgresql']}, fsync {where['fsync']}, on {where['filesystem']}; "
           f"deliverd {where['commit']}; {report['rows']:,} rows of ~{PAYLOAD_BYTES} bytes, batches of {BATCH_SIZE}")
    yield ""
    yield f"{'rows a second':<34}{'bare SQL':>10}{'lane':>10}{'ratio':>8}{'peak MiB':>10}{'CPU s/million':>15}"
    for pair in pairs:
        yield (f"{pair['title']:<34}{pair['bare_rows_per_second']:>10,}{pair['lane_rows_per_second']:>10,}"
               f"{pair['ratio']:>8.2f}{pair['lane_peak_mib']:>10.1f}{pair['lane_cpu_seconds_per_million']:>15.2f}")
    yield ""
    yield judged("ratio in peace", pairs[0]["ratio"], "", WANTED["ratio"], at_least=True)
    yield judged("resident while working", max(pair["lane_peak_mib"] for pair in pairs), "MiB", WANTED["working_mib"])
    yield judged("resident when idle", idle["resident_mib"], "MiB", WANTED["idle_mib"])
    yield judged("CPU when idle", idle["cpu_percent_of_a_core"], "%", WANTED["idle_cpu_percent"])
    yield f"{'transactions when idle':<24}{idle['transactions_per_second']:>8.2f} /s"


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything: does it run at all?")
    parser.add_argument("--rows", type=int, help="rows a run works off (200000)")
    parser.add_argument("--repeats", type=int, help="runs of each, in turn (3)")
    parser.add_argument("--settled", type=int, help="settled rows in the run with a history (1000000)")
    parser.add_argument("--idle-seconds", type=float, help="how long the idle service is watched (20)")
    parser.add_argument("--data-folder", help="where the server's temporary folder is made")
    parser.add_argument("--output", type=Path, default=build_dir() / "bench.json")
    options = parser.parse_args(arguments)
    full = {"rows": 200_000, "repeats": 3, "settled": 1_000_000, "idle_seconds": 20}
    quick = {"rows": 20_000, "repeats": 1, "settled": 100_000, "idle_seconds": 5}
    for name, value in (quick if options.quick else full).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def main(arguments):
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="deliverd-bench-") as folder, \
            PostgresServer(SERVER_SETTINGS, options.data_folder) as server:
        bench = Bench(server, options, Path(folder))
        single = 1 if options.quick else max(1, options.repeats - 1)
        report = {
            "machine": machine.describe(server),
            "command": "./dev bench" + "".join(f" {word}" for word in arguments),
            "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "rows": options.rows,
            "batch_size": BATCH_SIZE,
            "wanted": WANTED,
            "idle": bench.idle(),
            "pairs": [
                bench.pair("in peace", options.repeats),
                bench.pair("a transaction held open", single, held_open=True),
                bench.pair(f"{options.settled:,} settled rows beside", single, settled=options.settled),
            ],
        }
    print("\n".join(table(report)))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(f"\nwritten to {os.path.relpath(options.output)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
