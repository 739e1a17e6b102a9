"""Dead letters: read from a real Kafka into PostgreSQL, listed over HTTP, sent back; each compared with its ceiling.

Every run has a fresh copy of a prepared database. The bare methods of the ingest write the rows that deliverd stored, in
the same batches, to an empty table.
"""

import contextlib
import http.client
import json
import os
import random
import statistics
import time

import psycopg
import usage
from confluent_kafka import Consumer, Producer, TopicPartition
from harness.kafka import KafkaServer
from harness.postgres import free_port
from harness.waiting import wait_for
from harness.web import get

PARTS = ("ingest", "listing", "retry_all")
PARTITIONS = 8
VALUE_BYTES = 500
KEYS = 10_000
DEADLINE_SECONDS = 900
ANSWER_SECONDS = 30
LISTED = "listed.dlq.v1"
ASKED = 1000  # requests of each kind …
LEAST_ASKED = 20
CASE_SECONDS = 5  # … as far as that takes no longer
PAGE_SIZE = 20  # as the API has it
WALKED_PAGE_SIZE = 100
DEEP_PAGE = 10_000
HEADERS = (("trace", b"7f3a91c2"), ("error", b"no stock left"), ("kafka_dlt-exception-fqcn", b"shop.OutOfStock"))
SENT_BACK = (HEADERS[0], ("deliverd-replays", b"1"))
WITHOUT_TRIGGERS = "ALTER TABLE dlq.dlq_messages DISABLE TRIGGER USER"
COLUMNS = ("id, source_topic, source_partition, source_offset, record_timestamp_ms, record_timestamp_type, record_key,"
           " record_value, record_headers, payload, truncated, original_topic, original_partition, original_offset,"
           " error_message, error_class, stack_trace, producer")
# All batches except the last, from the start of the first to the start of the last: created_at is the transaction's.
SPAN = """
SELECT sum(n)::bigint AS letters, count(*) AS batches, extract(epoch FROM max(at) - min(at))::float8 AS seconds,
       (sum(n) - (array_agg(n ORDER BY at DESC))[1])::bigint AS counted
FROM (SELECT created_at AS at, count(*) AS n FROM dlq.dlq_messages GROUP BY 1) b
"""
BATCHES = "SELECT count(*) AS n FROM dlq.dlq_messages GROUP BY created_at ORDER BY created_at"
# Letters as the ingest stores them, each with its transaction's time; the headers are those of HEADERS.
FILL = f"""
INSERT INTO dlq.dlq_messages (id, source_topic, source_partition, source_offset, record_timestamp_ms, record_timestamp_type,
    record_key, record_value, record_headers, payload, original_topic, error_message, error_class, status, created_at)
SELECT ('01980000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, %(topic)s, n %% {PARTITIONS}, n,
       1750000000000 + n, 'created', convert_to('order-' || n %% {KEYS}, 'UTF8'),
    convert_to(v.value, 'UTF8'), %(headers)s::jsonb, v.value::jsonb, %(original)s, 'no stock left', 'shop.OutOfStock',
    CASE WHEN NOT %(mixed)s THEN 'PENDING' WHEN n %% 1000 = 7 THEN 'DEAD' WHEN n %% 20 = 1 THEN 'RESOLVED' ELSE 'PENDING' END,
    now() - interval '1 day' + n * interval '10 ms'
FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n
CROSS JOIN LATERAL (
    SELECT '{{"n": ' || n || ', "text": "' || rpad('', {VALUE_BYTES} - 18 - length(n::text), 'payload ') || '"}}') v (value)
"""
FILL_STEP = 100_000
BARE_PAGE = """
SELECT m.* FROM dlq.dlq_messages m WHERE m.source_topic = %s ORDER BY m.created_at DESC, m.id DESC LIMIT 21
"""


def value_of(number):
    text = ("payload " * 63)[:VALUE_BYTES - 18 - len(str(number))]
    return f'{{"n": {number}, "text": "{text}"}}'.encode()


def quantiles(seconds):
    taken = sorted(1000 * value for value in seconds)
    at = {name: taken[min(len(taken) - 1, int(part * len(taken)))] for name, part in (("p50_ms", 0.5), ("p99_ms", 0.99))}
    return at | {"max_ms": taken[-1], "requests": len(taken)}


class DeadLetters:
    def __init__(self, server, template, programs, folder, options, say):
        self.server, self.template, self.programs, self.folder = server, template, programs, folder
        self.options, self.say = options, say
        self.kafka = None
        self._names = 0

    @contextlib.contextmanager
    def copy(self, template=None):
        self._names += 1
        name = f"letters_{os.getpid()}_{self._names}"
        self.server.query("postgres", f"CREATE DATABASE {name} TEMPLATE {template or self.template} STRATEGY file_copy")
        try:
            self.server.query(name, "CHECKPOINT")
            yield name
        finally:
            self.server.drop_database(name)

    @contextlib.contextmanager
    def serving(self, name, **kafka):
        """A `serve` on that database; yields process and port. With `dlq_topic_pattern` it ingests, otherwise it only sends."""
        port = free_port()
        config = self.folder / "dead_letters.yaml"
        config.write_text(json.dumps({
            "database": {"url": self.server.url(name)}, "server": {"port": port},
            "kafka": {"brokers": [self.kafka.brokers], "consumer_group": name} | kafka,
            "dead_letters": {"ingest": bool(kafka)}}), encoding="utf-8")
        serve = self.programs.start("serve", "--config", config)
        try:
            wait_for(lambda: get(f"http://127.0.0.1:{port}/readyz").status == 200, ANSWER_SECONDS, lambda: serve.stderr)
            yield serve, port
            serve.terminate()
            if serve.wait() != 0:
                raise RuntimeError(f"serve ended with {serve.status()}: {serve.stderr[-2000:]}")
        finally:
            serve.end()

    @contextlib.contextmanager
    def filled(self, rows, topic, mixed):
        """A database with `count` letters; `mixed`: not all of them PENDING."""
        headers = json.dumps([{"name": "trace", "value_base64": "N2YzYTkxYzI="},
                              {"name": "error", "value_base64": "bm8gc3RvY2sgbGVmdA=="}])
        self.say(f"dead letters: {rows:,} rows")
        with self.copy() as name:
            with psycopg.connect(self.server.url(name), autocommit=True) as connection:
                for first in range(1, rows + 1, FILL_STEP):
                    connection.execute(FILL, {"topic": topic, "original": topic.removesuffix(".dlq.v1"), "headers": headers,
                                              "mixed": mixed, "first": first, "last": min(first + FILL_STEP - 1, rows)})
                connection.execute("VACUUM (ANALYZE) dlq.dlq_messages")
                connection.execute("CHECKPOINT")
            yield name

    def produced(self, topic, rows, headers=HEADERS):
        """Produces the records with librdkafka alone; returns the rate until all were acknowledged."""
        producer = Producer({"bootstrap.servers": self.kafka.brokers, "acks": "all", "enable.idempotence": True,
                             "linger.ms": 1, "queue.buffering.max.messages": 100_000, "partitioner": "murmur2_random"})
        values = [(value_of(n), b"order-%d" % (n % KEYS)) for n in range(rows)]
        headers = list(headers)
        before = self.in_topic(topic)
        producer.list_topics(topic, timeout=ANSWER_SECONDS)
        begin = time.perf_counter()
        for value, key in values:
            while True:
                try:
                    producer.produce(topic, value, key, headers=headers)
                    break
                except BufferError:
                    producer.poll(0.01)
        left = producer.flush(DEADLINE_SECONDS)
        seconds = time.perf_counter() - begin
        if left or self.in_topic(topic) - before != rows:
            raise RuntimeError("not everything was acknowledged")
        return rows / seconds

    def in_topic(self, topic):
        consumer = Consumer({"bootstrap.servers": self.kafka.brokers, "group.id": "bench"})
        with contextlib.closing(consumer):
            return sum(consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=ANSWER_SECONDS)[1]
                       for number in range(PARTITIONS))

    # --- coming in -----------------------------------------------------------------------------------------------

    def ingest(self):
        """deliverd and the bare methods in turn; medians and their ratios."""
        rows, repeats = self.options.dead_letters, self.options.dead_letter_repeats
        topic = self.kafka.create_topic("ingested.dlq.v1", PARTITIONS)
        self.say(f"dead letters: {rows:,} records into Kafka")
        self.produced(topic, rows)
        runs, bares = [], {"copy": [], "copy, no triggers": [], "insert": [], "insert, no triggers": []}
        for number in range(repeats):
            with self.copy() as name:
                self.say(f"dead letters: ingest, run {number + 1} of {repeats}")
                runs.append(self._ingested(name, rows))
                self.say(f"{runs[-1]['per_second']:,.0f} per second")
                batches = [row["n"] for row in self.server.query(name, BATCHES)]
                copied, inserted = self._rows_of(name, batches, "copy"), self._rows_of(name, batches, "insert")
            for how, seen in bares.items():
                self.say(f"dead letters: {how}, run {number + 1} of {repeats}")
                seen.append(self._bare(copied if how.startswith("copy") else inserted, rows, how))
                self.say(f"{seen[-1]:,.0f} per second")
        rate = statistics.median(run["per_second"] for run in runs)
        bare = {how: statistics.median(seen) for how, seen in bares.items()}
        return {"records": rows, "value_bytes": VALUE_BYTES, "per_second": round(rate),
                "batch_size": round(statistics.median(run["batch_size"] for run in runs)),
                "bare_per_second": {how: round(value) for how, value in bare.items()},
                "ratios": {how: round(rate / value, 3) for how, value in bare.items()},
                "peak_mib": round(max(run["peak_mib"] for run in runs), 1),
                "cpu_seconds_per_million": round(statistics.median(r["cpu_seconds_per_million"] for r in runs), 2),
                "bare_runs": bares, "runs": runs}

    def _ingested(self, name, rows):
        cores = usage.Cores(self.server.pid, self.kafka.pid)
        with self.serving(name, dlq_topic_pattern="ingested.dlq.v1") as (serve, port):
            watch = usage.Watch(serve.pid)
            try:
                def all_in():
                    time.sleep(0.1)
                    counted = "SELECT coalesce(sum(letters), 0) AS n FROM dlq.dlq_counts"
                    return self.server.query(name, counted)[0]["n"] >= rows

                wait_for(all_in, DEADLINE_SECONDS, lambda: serve.stderr[-2000:])
                cpu, shares = usage.cpu_seconds(serve.pid), cores.stop()
            finally:
                watch.stop()
        reported = self.server.query(name, SPAN)[0]
        if reported["letters"] != rows:
            raise RuntimeError(f"{reported['letters']} letters of {rows} records")
        return {"per_second": reported["counted"] / reported["seconds"], "batch_size": reported["letters"] / reported["batches"],
                "cpu_seconds_per_million": cpu * 1e6 / rows, "peak_mib": watch.peak_mib, "cores": shares}

    def _rows_of(self, name, batches, how):
        """The table's contents as statements that store it again: for each batch the text of a COPY or an INSERT."""
        line = COLUMNS if how == "copy" else (
            "'(' || concat_ws(',', " + ", ".join(f"quote_nullable({column})" for column in COLUMNS.split(",")) + ") || ')'")
        dump = f"COPY (SELECT {line} FROM dlq.dlq_messages ORDER BY created_at, id) TO STDOUT"
        with psycopg.connect(self.server.url(name)) as connection:
            if how == "copy":
                with connection.cursor().copy(dump) as copy:
                    lines = [bytes(row) for row in copy]
                lines = b"".join(lines).splitlines(keepends=True)
            else:
                lines = [row[0].encode() for row in connection.execute(dump[6:-11])]
        texts, at = [], 0
        for size in batches:
            part, at = lines[at:at + size], at + size
            texts.append(b"".join(part) if how == "copy"
                         else f"INSERT INTO dlq.dlq_messages ({COLUMNS}) VALUES ".encode() + b",".join(part))
        return texts

    def _bare(self, texts, rows, how):
        with self.copy() as name, psycopg.connect(self.server.url(name), autocommit=True) as connection:
            if how.endswith("no triggers"):
                connection.execute(WITHOUT_TRIGGERS)
            into = f"COPY dlq.dlq_messages ({COLUMNS}) FROM STDIN"
            begin = time.perf_counter()
            for text in texts:
                if how.startswith("copy"):
                    with connection.cursor().copy(into) as copy:
                        copy.write(text)
                elif connection.pgconn.exec_(text).error_message:
                    raise RuntimeError(connection.pgconn.error_message.decode())
            seconds = time.perf_counter() - begin
            stored = connection.execute("SELECT count(*) FROM dlq.dlq_messages").fetchone()[0]
            if stored != rows:
                raise RuntimeError(f"{stored} rows of {rows}")
        return rows / seconds

    # --- looking -------------------------------------------------------------------------------------------------

    def listing(self):
        rows = self.options.listed_letters
        with self.filled(rows, LISTED, mixed=True) as name, self.serving(name) as (serve, port):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)

            def asked(query):
                connection.request("GET", f"/api/v1/dlq/{LISTED}?{query}")
                answer = connection.getresponse()
                body = answer.read()
                if answer.status != 200:
                    raise RuntimeError(f"{answer.status}: {body[:500]}")
                return body

            def timed(query):
                begin = time.perf_counter()
                body = asked(query)
                return time.perf_counter() - begin, body

            def several(queries):
                asked(queries[0])
                until = time.monotonic() + CASE_SECONDS
                return quantiles([timed(query)[0] for number, query in enumerate(queries)
                                  if number < LEAST_ASKED or time.monotonic() < until])

            walked, cursors, query = [], [], f"page_size={WALKED_PAGE_SIZE}"
            self.say(f"dead letters: all pages of {WALKED_PAGE_SIZE} by cursor")
            while query:
                seconds, body = timed(query)
                walked.append(seconds)
                cursor = json.loads(body)["pagination"]["next_cursor"]
                query = f"page_size={WALKED_PAGE_SIZE}&cursor={cursor}" if cursor else None
                cursors += [cursor] if cursor else []
            if len(walked) != -(-rows // WALKED_PAGE_SIZE):
                raise RuntimeError(f"{len(walked)} pages of {rows} rows")
            last = walked[-max(1, len(walked) // 10):]
            deepest = cursors[-max(1, len(cursors) // 10):]
            cases = [{"title": f"bare SQL, page 1 of {PAGE_SIZE}"} | self._bare_pages(name)]
            size = f"page_size={PAGE_SIZE}"
            choose = random.Random(6)
            for title, queries in (
                    (f"page 1 of {PAGE_SIZE}", [size] * ASKED),
                    (f"page of {PAGE_SIZE} by cursor, anywhere",
                     [f"{size}&cursor={choose.choice(cursors)}" for _ in range(ASKED)]),
                    (f"page of {PAGE_SIZE} by cursor, in the last tenth",
                     [f"{size}&cursor={choose.choice(deepest)}" for _ in range(ASKED)]),
                    ("status PENDING (94.9 %), page 1", [f"{size}&status=PENDING"] * ASKED),
                    ("status RESOLVED (5 %), page 1", [f"{size}&status=RESOLVED"] * ASKED),
                    ("status RESOLVED (5 %) by cursor, anywhere",
                     [f"{size}&status=RESOLVED&cursor={choose.choice(cursors)}" for _ in range(ASKED)]),
                    ("status DEAD (0.1 %), page 1", [f"{size}&status=DEAD"] * ASKED),
                    ("error_class, page 1", [f"{size}&error_class=shop.OutOfStock"] * ASKED),
                    (f"page {DEEP_PAGE:,} of {PAGE_SIZE} by number",
                     [f"{size}&page={min(DEEP_PAGE, rows // PAGE_SIZE)}"] * ASKED)):
                cases.append({"title": title} | several(queries))
                self.say(f"dead letters: {title}: p99 {cases[-1]['p99_ms']:.2f} ms")
            cases += [{"title": f"page 1 of {WALKED_PAGE_SIZE}"} | several([f"page_size={WALKED_PAGE_SIZE}"] * ASKED),
                      {"title": f"page of {WALKED_PAGE_SIZE} by cursor, every page"} | quantiles(walked),
                      {"title": f"page of {WALKED_PAGE_SIZE} by cursor, in the last tenth"} | quantiles(last)]
            return {"rows": rows, "resident_mib": round(usage.resident_mib(serve.pid), 1), "cases": cases}

    def _bare_pages(self, name):
        with psycopg.connect(self.server.url(name), autocommit=True) as connection:
            seconds = []
            for _ in range(ASKED):
                begin = time.perf_counter()
                connection.execute(BARE_PAGE, (LISTED,), prepare=True).fetchall()
                seconds.append(time.perf_counter() - begin)
        return quantiles(seconds)

    # --- sending back --------------------------------------------------------------------------------------------

    def retry_all(self):
        """librdkafka alone and retry-all in turn; medians and their ratio."""
        rows, repeats = self.options.retried_letters, self.options.dead_letter_repeats
        bares, runs = [], []
        topic = self.kafka.create_topic("retried", PARTITIONS)
        with self.filled(rows, f"{topic}.dlq.v1", mixed=False) as name:
            for number in range(repeats):
                self.say(f"dead letters: librdkafka alone, run {number + 1} of {repeats}")
                bares.append(self.produced(topic, rows, SENT_BACK))
                self.say(f"dead letters: retry-all, run {number + 1} of {repeats}")
                with self.copy(name) as run:
                    runs.append(self._retried(run, topic, rows))
                self.say(f"{bares[-1]:,.0f} and {runs[-1]['per_second']:,.0f} per second")
        bare, rate = statistics.median(bares), statistics.median(run["per_second"] for run in runs)
        return {"letters": rows, "bare_per_second": round(bare), "per_second": round(rate),
                "ratio": round(rate / bare, 3), "peak_mib": round(max(run["peak_mib"] for run in runs), 1),
                "cpu_seconds_per_million": round(statistics.median(r["cpu_seconds_per_million"] for r in runs), 2),
                "bare_runs": bares, "runs": runs}

    def _retried(self, name, topic, rows):
        before = self.in_topic(topic)
        with self.serving(name) as (serve, port):
            watch, cores = usage.Watch(serve.pid), usage.Cores(self.server.pid, self.kafka.pid)
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_SECONDS)
                begin = time.perf_counter()
                connection.request("POST", f"/api/v1/dlq/{topic}.dlq.v1/retry-all")
                answer = json.loads(connection.getresponse().read())
                seconds = time.perf_counter() - begin
                cpu, shares = usage.cpu_seconds(serve.pid), cores.stop()
            finally:
                watch.stop()
        came = self.in_topic(topic) - before
        if (answer.get("retried"), came) != (rows, rows):
            raise RuntimeError(f"{answer}, and {came} records came")
        return {"per_second": rows / seconds, "cpu_seconds_per_million": cpu * 1e6 / rows, "peak_mib": watch.peak_mib,
                "cores": shares}

    def measure(self):
        with KafkaServer(parent_folder=self.options.data_folder) as self.kafka:
            return {part: getattr(self, part)() for part in self.options.dead_letter_parts or PARTS}
