"""Events: backlogs relayed by `deliverd worker --loop` to a real Kafka, compared with the bare SELECT 500 + UPDATE 500.

Every run has a fresh copy of a prepared table. The database's clock measures the rates: the rows of all settles except
the last, from the first settle to the last. The report has the CPU use too, because cores are the limit on a small machine.
"""

import contextlib
import json
import os
import statistics
import subprocess
import threading
import time

import bare
import brokers
import psycopg
import usage
from harness.kafka import KafkaServer
from harness.postgres import free_port
from harness.process import program
from harness.waiting import wait_for
from harness.web import get

PARTS = ("idle", "commit_to_consumer", "backlog", "flat", "processes", "failing", "other_sinks")
BATCH_SIZE = 500
AGGREGATES = 10_000
FAILING = 100  # of them
PARTITIONS = 8
WARM_UP_SECONDS = 10  # not counted: the broker's JVM compiles what it runs often
DEADLINE_SECONDS = 1800
LOOK_SECONDS = 0.1
NEAR_THE_END = 3_000  # ids
SMALL = 10_000
FILL_STEP = 500_000
# The payload has 200 bytes as PostgreSQL prints it.
FILL = f"""
INSERT INTO outbox (aggregate_id, event_type, payload, created_at, published, published_at)
SELECT 'order-' || n %% {AGGREGATES},
       CASE WHEN n %% {AGGREGATES} < %(failing)s THEN %(failing_type)s ELSE 'placed' END,
       jsonb_build_object('n', n, 'text', rpad('', 200 - 18 - length(n::text), 'payload ')),
       now() - interval '1 hour', %(published)s, CASE WHEN %(published)s THEN now() - interval '1 hour' END
FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n
"""
OPEN_NEAR_THE_END = """
SELECT id FROM outbox WHERE NOT published AND dead_at IS NULL AND id > %s ORDER BY id LIMIT 1
"""
OPEN = """
SELECT count(*) AS n FROM outbox
WHERE NOT published AND dead_at IS NULL AND retry_count = 0 AND aggregate_id <> ALL (%s)
"""
SPAN = """
WITH settles AS (
    SELECT published_at AS at, count(*) AS n FROM outbox
    WHERE published AND published_at > created_at + interval '1 minute' AND id > %s GROUP BY 1
), ordered AS (
    SELECT at, n, sum(n) OVER (ORDER BY at) AS done, sum(n) OVER () AS total FROM settles
)
SELECT sum(n)::bigint AS events, extract(epoch FROM max(at) - min(at))::float8 AS seconds, count(*) AS settles,
       (sum(n) - (array_agg(n ORDER BY at DESC))[1])::bigint AS counted,
       (sum(n) FILTER (WHERE done > total * 0.9 AND done < total)
        / nullif(extract(epoch FROM max(at) - min(at) FILTER (WHERE done > total * 0.9)), 0))::float8 AS last_tenth
FROM ordered
"""


class Events:
    def __init__(self, server, template, programs, folder, options, say):
        self.server, self.template, self.programs, self.folder = server, template, programs, folder
        self.options, self.say = options, say
        self.kafka = None
        self._filled = {}
        self._topics = 0

    # --- tables --------------------------------------------------------------------------------------------------

    def filled(self, rows, *, published=0, failing_type=None):
        """The name of a database with that many open events; made once."""
        key = (rows, published, failing_type)
        if key in self._filled:
            return self._filled[key]
        self.say(f"events: {rows:,} rows" + (f" and {published:,} published ones" if published else ""))
        name = self.server.create_database(self.template)
        with psycopg.connect(self.server.url(name), autocommit=True) as connection:
            for count, done in ((published, True), (rows, False)):
                for first in range(1, count + 1, FILL_STEP):
                    connection.execute(FILL, {
                        "first": first, "last": min(first + FILL_STEP - 1, count), "published": done,
                        "failing": FAILING if failing_type else 0, "failing_type": failing_type or ""})
            connection.execute("VACUUM (ANALYZE) outbox")
            connection.execute("CHECKPOINT")
        self._filled[key] = name
        return name

    def forget(self, rows, **circumstances):
        key = (rows, circumstances.get("published", 0), circumstances.get("failing_type"))
        self.server.drop_database(self._filled.pop(key))

    @contextlib.contextmanager
    def copy(self, filled, held_open=False):
        name = f"run_{os.getpid()}_{time.monotonic_ns()}"
        self.server.query("postgres", f"CREATE DATABASE {name} TEMPLATE {filled} STRATEGY file_copy")
        holder = psycopg.connect(self.server.url(name)) if held_open else None
        try:
            self.server.query(name, "CHECKPOINT")
            if holder:
                holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                holder.execute("SELECT count(*) FROM outbox WHERE id = 1")
            yield name
        finally:
            if holder:
                holder.close()
            self.server.drop_database(name)

    # --- one run -------------------------------------------------------------------------------------------------

    def topic(self, partitions=PARTITIONS):
        self._topics += 1
        return self.kafka.create_topic(f"bench-{self._topics}", partitions)

    def kafka_sink(self, topic):
        return {"type": "kafka", "brokers": self.kafka.brokers, "topic": topic}

    def config(self, name, sink, **lane):
        path = self.folder / "events.yaml"
        path.write_text(json.dumps({
            "database": {"url": self.server.url(name)}, "server": {"port": free_port()},
            "lanes": {"events": {"outbox": "events", "sink": sink} | lane}}), encoding="utf-8")
        return path

    def bare(self, filled, held_open=False):
        with self.copy(filled, held_open) as name:
            rows, seconds = bare.drain_events(self.server.url(name), BATCH_SIZE)
        return rows / seconds

    def relay(self, filled, sink, *, processes=1, held_open=False, failing=False):
        """Processes a copy of it; returns the measurements."""
        with self.copy(filled, held_open) as name:
            last = self.server.query(name, "SELECT coalesce(max(id) FILTER (WHERE published), 0) AS n FROM outbox")[0]
            config = self.config(name, sink)
            cores = usage.Cores(self.server.pid, self.kafka.pid if self.kafka else None)
            workers = [self.programs.start("worker", "--config", config, "--lane", "events", "--loop")
                       for _ in range(processes)]
            watches = [usage.Watch(worker.pid) for worker in workers]
            try:
                self._follow(name, workers, failing)
                cpu = sum(usage.cpu_seconds(worker.pid) for worker in workers)
                shares = cores.stop()
                for worker in workers:
                    worker.terminate()
                for worker in workers:
                    if worker.wait() != 0:
                        raise RuntimeError(f"the worker ended with {worker.status()}: {worker.stderr[-2000:]}")
            finally:
                for watch in watches:
                    watch.stop()
                for worker in workers:
                    worker.end()
            reported = self.server.query(name, SPAN, last["n"])[0]
        return {"per_second": reported["counted"] / reported["seconds"] if reported["seconds"] else 0.0,
                "last_tenth_per_second": reported["last_tenth"], "settles": reported["settles"],
                "events_a_settle": reported["events"] / reported["settles"], "published": reported["events"],
                "cpu_seconds_per_million": cpu * 1e6 / reported["events"],
                "peak_mib": max(watch.peak_mib for watch in watches), "cores": shares}

    def small(self, rows):
        """A small backlog committed at once to an idle relay, as events per second."""
        with self.copy(self.template) as name, psycopg.connect(self.server.url(name), autocommit=True) as connection:
            config = self.config(name, self.kafka_sink(self.topic()))
            worker = self.programs.start("worker", "--config", config, "--lane", "events", "--loop")
            try:
                rates = []
                for first in range(1, 7 * rows, rows):
                    values = {"first": first, "last": first + rows - 1, "published": False, "failing": 0,
                              "failing_type": ""}
                    connection.execute(FILL, values)
                    begin = connection.execute("SELECT clock_timestamp()").fetchone()[0]
                    self._follow(name, [worker], False)
                    end = connection.execute("SELECT max(published_at) FROM outbox").fetchone()[0]
                    rates.append(rows / (end - begin).total_seconds())
                worker.terminate()
                worker.wait()
            finally:
                worker.end()
        return statistics.median(rates[1:])  # the first one waits for the connection to Kafka

    def _follow(self, name, workers, failing):
        excluded = [f"order-{n}" for n in range(FAILING)] if failing else []
        pause = threading.Event()
        with psycopg.connect(self.server.url(name), autocommit=True) as connection:
            last = connection.execute("SELECT max(id) FROM outbox").fetchone()[0]

            def done():
                pause.wait(LOOK_SECONDS)
                for worker in workers:
                    if not worker.alive():
                        raise RuntimeError(f"the worker ended with {worker.status()}: {worker.stderr[-2000:]}")
                if not failing and connection.execute(OPEN_NEAR_THE_END, (last - NEAR_THE_END,)).fetchone():
                    return False
                if failing:
                    pause.wait(1 - LOOK_SECONDS)  # this look is not cheap
                return connection.execute(OPEN, (excluded,)).fetchone()[0] == 0

            wait_for(done, DEADLINE_SECONDS, lambda: workers[0].stderr[-2000:])

    # --- the figures ---------------------------------------------------------------------------------------------

    def backlog(self):
        """Bare and relay in turn; medians and their ratio."""
        rows, repeats = self.options.events, self.options.event_repeats
        filled = self.filled(rows)
        bares, relays = [], []
        for number in range(repeats):
            self.say(f"events: bare, run {number + 1} of {repeats}")
            bares.append(self.bare(filled))
            self.say(f"events: relay to Kafka, run {number + 1} of {repeats}")
            relays.append(self.relay(filled, self.kafka_sink(self.topic())))
        bare_rate = statistics.median(bares)
        rate = statistics.median(run["per_second"] for run in relays)
        return {"events": rows, "batch_size": BATCH_SIZE, "bare_per_second": round(bare_rate),
                "per_second": round(rate), "ratio": round(rate / bare_rate, 3),
                "peak_mib": round(max(run["peak_mib"] for run in relays), 1),
                "cpu_seconds_per_million": round(statistics.median(r["cpu_seconds_per_million"] for r in relays), 2),
                "bare_runs": bares, "runs": relays}

    def flat(self):
        big, published = self.options.big_backlog, self.options.published
        cases = [(self.options.events, {}, {})]
        if big > self.options.events:
            cases.append((big, {}, {}))
        cases += [(self.options.events, {"published": published}, {}), (self.options.events, {}, {"held_open": True})]
        self.say(f"events: backlog of {SMALL:,}")
        found = [{"title": f"{SMALL:,} events to an idle relay", "per_second": round(self.small(SMALL))}]
        for rows, table, held in cases:
            beside = f", {published:,} published ones in the table" if table else ", a transaction held open" if held else ""
            self.say(f"events: backlog of {rows:,}{beside}")
            filled = self.filled(rows, **table)
            bare_rate = self.bare(filled, **held)
            run = self.relay(filled, self.kafka_sink(self.topic()), **held)
            if rows != self.options.events or table:
                self.forget(rows, **table)
            found.append({"title": f"{rows:,} events{beside}", "bare_per_second": round(bare_rate),
                          "per_second": round(run["per_second"]),
                          "last_tenth_per_second": round(run["last_tenth_per_second"] or 0),
                          "peak_mib": round(run["peak_mib"], 1), "run": run})
        return found

    def processes(self):
        filled = self.filled(self.options.events)
        found = []
        for count in (1, 2, 3):
            self.say(f"events: {count} relays")
            run = self.relay(filled, self.kafka_sink(self.topic()), processes=count)
            found.append({"relays": count} | run)
        return found

    def failing(self):
        """Some aggregates fail permanently; the rest are counted. Topics are named by the event; an unknown topic fails."""
        rows = self.options.failing_events
        self.kafka.create_topic("placed", PARTITIONS)
        sink = self.kafka_sink("{event_type_raw}")
        found = []
        for title, kind in (("none fails", None), (f"{FAILING} of {AGGREGATES:,}: dead at once", "no topic!"),
                            (f"{FAILING} of {AGGREGATES:,}: retried repeatedly", "no-such-topic")):
            self.say(f"events: {title}")
            filled = self.filled(rows, failing_type=kind)
            runs = [self.relay(filled, sink, failing=kind is not None) for _ in range(self.options.event_repeats)]
            self.forget(rows, failing_type=kind)
            found.append({"title": title, "per_second": round(statistics.median(run["per_second"] for run in runs)),
                          "runs": runs})
        for case in found:
            case["ratio"] = round(case["per_second"] / found[0]["per_second"], 3)
        return found

    def other_sinks(self):
        rows = self.options.other_events
        filled = self.filled(rows)
        found = []
        for title, opened in (("Kafka", None), ("RabbitMQ", brokers.rabbitmq), ("NATS JetStream", brokers.nats),
                              ("HTTP, answered at once", brokers.http), ("none", brokers.nothing)):
            self.say(f"events: {rows:,} to {title}")
            with contextlib.ExitStack() as stack:
                sink = stack.enter_context(opened(self.folder)) if opened else self.kafka_sink(self.topic())
                run = self.relay(filled, sink)
            found.append({"title": title} | run)
        self.forget(rows)
        return found

    def commit_to_consumer(self):
        """To a topic as a broker creates it by default, and to one with several partitions. Each partition needs its own
        request, so the broker has several times the work."""
        self.say(f"events: commit to consumer at {self.options.rate:,} per second")
        return [{"partitions": partitions, "bare": self._stamp(partitions, bare=True)} | self._stamp(partitions)
                for partitions in (1, PARTITIONS)]

    def _stamp(self, partitions, *, bare=False):
        with self.copy(self.template) as name, contextlib.ExitStack() as stack:
            topic = self.topic(partitions)
            worker = None
            if not bare:
                worker = self.programs.start("worker", "--config", self.config(name, self.kafka_sink(topic)), "--lane",
                                             "events", "--loop")
                stack.callback(worker.end)
            cpu = usage.cpu_seconds(worker.pid) if worker else 0
            run = subprocess.run(
                [program("bench_latency"), self.server.url(name), self.kafka.brokers, topic, str(self.options.rate),
                 str(WARM_UP_SECONDS), str(self.options.latency_seconds), *(["--produce"] if bare else [])],
                stdout=subprocess.PIPE, check=True, timeout=DEADLINE_SECONDS)
            figures = json.loads(run.stdout)
            if worker:
                figures["cpu_percent_of_a_core"] = round(100 * (usage.cpu_seconds(worker.pid) - cpu)
                                                         / (figures["seconds"] + WARM_UP_SECONDS), 1)
                worker.terminate()
                worker.wait()
        return figures

    def idle(self):
        """A `serve` with a lane of events on an empty table."""
        with self.copy(self.template) as name:
            config = self.config(name, self.kafka_sink(self.topic()))
            port = json.loads(config.read_text(encoding="utf-8"))["server"]["port"]
            serve = self.programs.start("serve", "--config", config)
            try:
                wait_for(lambda: get(f"http://127.0.0.1:{port}/readyz").status == 200, 30, lambda: serve.stderr)
                pause = threading.Event()
                pause.wait(5)  # until it has nothing to do, the relay looks more often
                self.say(f"events: idle serve for {self.options.idle_seconds} s")
                cpu, at, transactions = usage.cpu_seconds(serve.pid), time.monotonic(), self._transactions(name)
                pause.wait(self.options.idle_seconds)
                span = time.monotonic() - at
                figures = {"resident_mib": round(usage.resident_mib(serve.pid), 1),
                           "cpu_percent_of_a_core": round(100 * (usage.cpu_seconds(serve.pid) - cpu) / span, 2),
                           "transactions_per_second": round((self._transactions(name) - transactions) / span, 1)}
                serve.terminate()
                serve.wait()
            finally:
                serve.end()
        return figures

    def _transactions(self, name):
        return self.server.query("postgres", "SELECT xact_commit + xact_rollback AS n FROM pg_stat_database"
                                             " WHERE datname = %s", name)[0]["n"]

    def measure(self):
        with KafkaServer(parent_folder=self.options.data_folder) as self.kafka:
            return {part: getattr(self, part)() for part in self.options.parts or PARTS}
