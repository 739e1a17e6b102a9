"""A running lane of events: strict order, deletion, other tables, wake-ups, upkeep, doctor, metrics."""

import json
import re
import threading

import psycopg
import pytest
from harness.documents import text_of
from harness.event_lanes import (
    always_ok,
    events_config,
    quick,
    start_relay,
    state,
    wait_for_all_published,
    wait_for_state,
    write,
)
from harness.ports import free_port
from harness.receiver import Answer
from harness.service import Service
from harness.waiting import wait_for

FAR_BELOW_A_MINUTE = 20


def http(receiver):
    return {"type": "http", "url": receiver.url}


@pytest.fixture
def relay(programs, tmp_path, receiver):
    """Starts a relay to the receiver, which accepts everything."""
    always_ok(receiver)

    def start(store, sink=None, **lane):
        return start_relay(programs, events_config(tmp_path, store, http(receiver) | (sink or {}), lane=lane))

    return start


def bodies(receiver, aggregate=None):
    return [call.raw_body.decode() for call in receiver.calls
            if aggregate is None or call.headers["x-aggregate-id"] == aggregate]


# --- strict_order ----------------------------------------------------------------------------------------------------

def add(connection, aggregate, payload):
    connection.execute("SELECT deliverd.add_event(%s, 'T', %s)", (aggregate, payload))


def reads(postgres):
    """How often the table's indexes were scanned."""
    return postgres.query("SELECT sum(idx_scan) AS n FROM pg_stat_user_indexes WHERE relname = 'outbox'")[0]["n"]


def test_strict_order_holds_events_back_behind_an_older_transaction(postgres, receiver, relay):
    relay(postgres, strict_order=True)
    write(postgres, "before", payload="0")
    wait_for(lambda: bodies(receiver) == ["0"], 20, "the relay to work")
    with psycopg.connect(postgres.url) as older:
        add(older, "a", "1")
        held = [write(postgres, "a", payload="2"), write(postgres, "b", payload="3")]
        # Shows that the relay has polled since: it keeps polling while events are held back.
        looks = reads(postgres)
        wait_for(lambda: reads(postgres) > looks + 2, 30, "some looks")
        assert [state(postgres, event) for event in held] == ["open", "open"]
        assert bodies(receiver) == ["0"]
    wait_for_all_published(postgres)
    assert bodies(receiver, "a") == ["1", "2"]


def test_strict_order_waits_for_the_lower_id_of_a_transaction_that_began_later(postgres, receiver, relay):
    relay(postgres, strict_order=True)
    with psycopg.connect(postgres.url) as older, psycopg.connect(postgres.url) as younger:
        older.execute("SELECT pg_current_xact_id()")  # it has already written something else
        add(younger, "a", "1")
        add(older, "a", "2")
        older.commit()
        looks = reads(postgres)
        wait_for(lambda: reads(postgres) > looks + 5, 30, "some looks")
        assert bodies(receiver) == []
    wait_for_all_published(postgres)
    assert bodies(receiver, "a") == ["1", "2"]


def test_without_strict_order_events_are_not_held_back(postgres, receiver, relay):
    relay(postgres)
    with psycopg.connect(postgres.url) as older:
        add(older, "a", "1")
        wait_for_state(postgres, write(postgres, "a", payload="2"), "published")
    wait_for_all_published(postgres)
    assert bodies(receiver, "a") == ["2", "1"]


# --- after_publish, other tables -------------------------------------------------------------------------------------

def test_after_publish_delete_leaves_no_row(store, receiver, relay):
    for number in range(5):
        write(store, payload=str(number))
    relay(store, after_publish="delete")
    wait_for(lambda: not store.query("SELECT id FROM outbox"), 20, "the rows to be gone")
    assert bodies(receiver) == list("01234")


DEBEZIUM = "CREATE TABLE outboxevent (id {}, aggregatetype text, aggregateid text, type text, payload jsonb)"


def test_debeziums_table_with_uuids(postgres, receiver, relay):
    postgres.query(DEBEZIUM.format("uuid PRIMARY KEY DEFAULT gen_random_uuid()"))
    for number in range(5):
        postgres.query("INSERT INTO outboxevent (aggregatetype, aggregateid, type, payload) VALUES ('order', ?, 'T', ?)",
                       f"a{number}", str(number))
    ids = {found["payload"]: str(found["id"]) for found in postgres.query("SELECT id, payload FROM outboxevent")}
    relay(postgres, table="outboxevent", columns="debezium")
    wait_for(lambda: not postgres.query("SELECT id FROM outboxevent"), 20, "the rows to be published and deleted")
    assert {call.body: call.key for call in receiver.calls} == ids
    assert {call.headers["x-event-type"] for call in receiver.calls} == {"T"}
    assert "x-created-at" not in receiver.calls[0].headers


def test_debeziums_table_with_numbers_is_in_order_and_failures_are_stored_aside(postgres, receiver, programs, tmp_path):
    postgres.query("CREATE SCHEMA shop")
    postgres.query(DEBEZIUM.replace("outboxevent", "shop.outboxevent").format("bigserial PRIMARY KEY"))
    for number in range(6):
        postgres.query("INSERT INTO shop.outboxevent (aggregatetype, aggregateid, type, payload)"
                       " VALUES ('order', ?, 'T', ?)", f"a{number % 2}", str(number))
    receiver.answer_with(lambda call: Answer(400 if call.body == 1 else 503 if call.body == 2 and call.attempt == 1
                                             else 200, {}))
    lane = quick(table="shop.outboxevent", columns="debezium")
    start_relay(programs, events_config(tmp_path, postgres, http(receiver), lane=lane))
    wait_for(lambda: len(postgres.query("SELECT id FROM shop.outboxevent")) == 1, 20, "all but the dead one to be gone")
    assert bodies(receiver, "a0") == ["0", "2", "2", "4"] and bodies(receiver, "a1") == ["1", "3", "5"]
    (failure,) = postgres.query("SELECT row_id, aggregate_id, dead_at, last_error FROM deliverd.event_failures")
    assert (failure["row_id"], failure["aggregate_id"]) == ("2", "a1")
    assert failure["dead_at"] is not None and "400" in failure["last_error"]


def test_debeziums_topics(postgres, programs, tmp_path):
    postgres.query(DEBEZIUM.format("bigserial PRIMARY KEY"))
    postgres.query("INSERT INTO outboxevent (aggregatetype, aggregateid, type, payload) VALUES ('order', 'o1', 'T', '1')")
    sink = {"type": "console", "topic": "outbox.event.{aggregate_type}"}
    relay = start_relay(programs, events_config(tmp_path, postgres, sink,
                                                lane={"table": "outboxevent", "columns": "debezium"}))
    wait_for(lambda: relay.stdout.count("\n") == 1, 20, lambda: relay.stderr)
    line = json.loads(relay.stdout)
    assert (line["topic"], line["key"], line["message_id"]) == ("outbox.event.order", "o1", "1")


def test_a_table_with_other_column_names(store, receiver, relay):
    number = "bigserial PRIMARY KEY" if store.kind == "postgres" else "integer PRIMARY KEY AUTOINCREMENT"
    store.query(f'CREATE TABLE "Shop Events" (no {number}, order_no varchar(40) NOT NULL, kind text NOT NULL,'
                ' "body" text NOT NULL, done boolean NOT NULL DEFAULT false)')
    for value in range(4):
        store.query('INSERT INTO "Shop Events" (order_no, kind, body) VALUES (?, ?, ?) RETURNING no',
                    f"o{value % 2}", "Paid", f"plain text {value}")
    absent = ["event_id", "metadata", "created_at", "published_at", "retry_count", "next_attempt_at", "last_error",
              "dead_at"]
    relay(store, table="Shop Events", columns={"id": "no", "aggregate_id": "order_no", "event_type": "kind",
                                               "payload": "body", "published": "done"} | dict.fromkeys(absent, ""))
    wait_for(lambda: not store.query('SELECT no FROM "Shop Events" WHERE NOT done'), 20, "all to be done")
    assert bodies(receiver, "o0") == ["plain text 0", "plain text 2"]
    assert [call.key for call in receiver.calls if call.headers["x-aggregate-id"] == "o1"] == ["2", "4"]


# --- wake-ups --------------------------------------------------------------------------------------------------------

def sleepers(postgres):
    return postgres.query("SELECT count(*) AS n FROM deliverd.relays WHERE asleep")[0]["n"]


def test_a_sleeping_relay_is_woken_by_a_writer(postgres, receiver, relay):
    relay(postgres, idle_poll_ms=60_000)
    for number in range(3):
        wait_for(lambda: sleepers(postgres) == 1, FAR_BELOW_A_MINUTE, "the relay to sleep")
        write(postgres, payload=str(number))
        wait_for(lambda: receiver.count() == number + 1, FAR_BELOW_A_MINUTE, "the event that woke it")


def test_an_event_inserted_before_the_relay_sleeps_is_sent_at_its_commit(postgres, receiver, relay):
    """The insert's trigger sees no idle relay, so it sends no notification."""
    with psycopg.connect(postgres.url) as writer:
        add(writer, "early", "1")
        relay(postgres, idle_poll_ms=60_000, busy_poll_ms=60_000)
        wait_for(lambda: sleepers(postgres) == 1, FAR_BELOW_A_MINUTE, "the relay to sleep")
        writer.commit()
        wait_for(lambda: receiver.count() == 1, FAR_BELOW_A_MINUTE, "the event")


def heard(listener):
    """Notifications so far. Those of earlier commits arrive before the answer to a query."""
    listener.execute("SELECT 1")
    return list(listener.notifies(timeout=0.5))


def test_which_transactions_notify(postgres, relay):
    """At most once per transaction; not with deliverd.notify off; not while no relay sleeps."""
    with psycopg.connect(postgres.url, autocommit=True) as listener, \
            psycopg.connect(postgres.url, autocommit=True) as writer:
        listener.execute("LISTEN deliverd_outbox")
        add(writer, "nobody sleeps", "1")
        assert heard(listener) == []
        relay(postgres, idle_poll_ms=60_000)
        wait_for(lambda: sleepers(postgres) == 1, FAR_BELOW_A_MINUTE, "the relay to sleep")
        writer.execute("SET deliverd.notify = off")
        add(writer, "quiet", "2")
        assert heard(listener) == []
        writer.execute("SET deliverd.notify = on")
        with writer.transaction():
            for number in range(5):
                add(writer, f"loud {number}", "3")
        assert len(heard(listener)) == 1


# --- upkeep ----------------------------------------------------------------------------------------------------------

@pytest.fixture
def serve(programs, tmp_path, receiver):
    def start(store, **lane):
        port = free_port()
        config = events_config(tmp_path, store, http(receiver), lane=lane, server={"port": port},
                               upkeep={"outbox_purge_seconds": 1})
        return Service(programs, config, port)

    return start


def test_only_published_events_are_deleted(store, receiver, serve):
    receiver.answer_with(lambda call: Answer({b"1": 400, b"2": 503}.get(call.raw_body, 200), {}))
    ids = [write(store, f"order-{number}", payload=str(number)) for number in range(5)]
    serve(store, keep_published=1, retry={"base_seconds": 3600})
    left = [ids[1], ids[2]]
    wait_for(lambda: [found["id"] for found in store.query("SELECT id FROM outbox ORDER BY id")] == left, 30,
             lambda: store.query("SELECT id, published, published_at, dead_at FROM outbox"))
    assert [state(store, event) for event in left] == ["dead", "waiting"]
    assert sorted(bodies(receiver)) == list("01234")


def test_recent_events_are_kept(store, receiver, serve):
    always_ok(receiver)
    old, young = write(store, payload="1"), write(store, payload="2")
    serve(store, keep_published=3600)
    wait_for_all_published(store)
    long_ago = "now() - interval '2 hours'" if store.kind == "postgres" else \
        "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-2 hours')"
    store.query(f"UPDATE outbox SET published_at = {long_ago} WHERE id = ? RETURNING id", old)
    wait_for(lambda: [found["id"] for found in store.query("SELECT id FROM outbox")] == [young], 30, "the old one to go")


def test_a_partition_whose_events_are_all_published_is_dropped(postgres, receiver, serve):
    always_ok(receiver)
    postgres.query("ALTER TABLE outbox RENAME TO plain")
    postgres.query("CREATE TABLE outbox (LIKE plain INCLUDING DEFAULTS, PRIMARY KEY (id)) PARTITION BY RANGE (id)")
    for number in range(3):
        postgres.query(f"CREATE TABLE part{number} PARTITION OF outbox FOR VALUES FROM ({number * 10}) TO"
                       f" ({number * 10 + 10})")
    for _ in range(25):
        write(postgres, payload="1")
    serve(postgres, keep_published=1)

    def parts():
        return [found["name"] for found in postgres.query("SELECT inhrelid::regclass::text AS name FROM pg_inherits"
                                                          " WHERE inhparent = 'outbox'::regclass ORDER BY 1")]

    wait_for(lambda: parts() == ["part2"], 30, parts)
    assert len(receiver.times()) == 25
    write(postgres, payload="2")
    wait_for(lambda: receiver.count() == 26, 20, "what came later")


# --- doctor, worker --once, metrics ----------------------------------------------------------------------------------

@pytest.fixture
def doctor(programs, tmp_path):
    """The failed checks: check → message."""

    def run(store, sink=None, **lane):
        config = events_config(tmp_path, store, sink or {"type": "console"}, lane=lane)
        done = programs.run("doctor", "--json", "--config", config)
        findings = json.loads(done.stdout)
        bad = {finding["check"]: finding["message"] for finding in findings if not finding["ok"]}
        assert done.status == (1 if bad else 0)
        assert {"table of events", "sink of events"} <= {finding["check"] for finding in findings}
        return bad

    return run


def test_the_doctor_reports_nothing_on_a_sound_lane(store, doctor):
    assert doctor(store) == {}


def test_the_doctor_on_a_missing_or_different_table(store, doctor):
    bad = doctor(store, table="elsewhere")
    assert list(bad) == ["table of events"] and "elsewhere" in bad["table of events"]
    bad = doctor(store, columns={"payload": "bodey"})
    assert list(bad) == ["table of events"] and "bodey" in bad["table of events"] and "columns" in bad["table of events"]


def test_the_doctor_prints_the_grants_a_relay_role_needs(postgres, doctor, receiver, relay):
    role = f"weak_of_{postgres.database}"
    postgres.query(f"CREATE ROLE {role} LOGIN")
    write(postgres)
    owner_url = postgres.url
    try:
        postgres.url = owner_url.replace("postgres@", f"{role}@")
        bad = doctor(postgres)
        reported = " ".join(bad.values())
        assert "grant" in reported and "outbox" in bad["table of events"] and role in reported
        postgres.url = owner_url
        # The printed grants are enough.
        for statement in re.findall(r"grant [^;]+", reported):
            postgres.query(statement)
        postgres.url = owner_url.replace("postgres@", f"{role}@")
        assert doctor(postgres) == {}
        running = relay(postgres)
        wait_for(lambda: receiver.count() == 1, 20, lambda: running.stderr)
        running.terminate()
        assert running.wait() == 0
        assert "permission denied" not in running.stderr
    finally:
        postgres.url = owner_url
        postgres.query(f"DROP OWNED BY {role}")
        postgres.query(f"DROP ROLE {role}")


@pytest.mark.parametrize("kind", ["http", "kafka", "rabbitmq", "nats"])
def test_the_doctor_on_an_unreachable_broker(sqlite, doctor, kind):
    port = free_port()
    where = {"http": {"url": f"http://127.0.0.1:{port}/"}, "kafka": {"brokers": f"127.0.0.1:{port}"},
             "rabbitmq": {"url": f"amqp://guest:guest@127.0.0.1:{port}/"}, "nats": {"url": f"nats://127.0.0.1:{port}"}}
    bad = doctor(sqlite, {"type": kind} | where[kind])
    assert list(bad) == ["sink of events"]
    assert str(port) in bad["sink of events"], bad
    assert "guest:guest" not in bad["sink of events"]


def test_worker_once(store, programs, receiver, tmp_path):
    receiver.answer_with(lambda call: Answer(400 if call.raw_body == b"2" else 200, {}))
    config = events_config(tmp_path, store, http(receiver))

    def once():
        done = programs.run("worker", "--lane", "events", "--once", "--json", "--config", config)
        (summary,) = done.json_lines()
        return done.status, summary["sent"], summary["dead"]

    assert once() == (0, 0, 0)
    ids = [write(store, f"order-{number}", payload=str(number)) for number in range(2)]
    assert once() == (0, 2, 0)
    assert [state(store, event) for event in ids] == ["published", "published"]
    write(store, payload="2")
    assert once()[1:] == (0, 1)


def test_the_metrics_of_a_lane_move_and_are_documented(store, receiver, serve):
    receiver.answer_with(lambda call: Answer({b"1": 400, b"2": 503 if call.attempt == 1 else 200}.get(call.raw_body, 200),
                                             {}))
    for number in range(5):
        write(store, f"order-{number}", payload=str(number))
    service = serve(store, **quick())

    def sends():
        return {outcome: service.total(rf'^outbox_send_total{{lane="events",outcome="{outcome}"}}')
                for outcome in ("success", "retry", "dead")}

    wait_for(lambda: sends() == {"success": 4, "retry": 1, "dead": 1}, 30, sends)
    assert service.total(r'^outbox_flush_total{lane="events",reason="outbox_flush_dead"}') == 1
    assert service.total(r'^outbox_lag_seconds_count{lane="events"}') >= 5
    assert service.total(r'^outbox_claimed_total{lane="events"}') >= 5
    assert service.total(r'^database_call_seconds_count{.*operation="read"') > 0
    assert service.total(r'^sink_send_seconds_count{lane="events",outcome="delivered"}') == 4
    families = set(re.findall(r"^# TYPE (\w+)", service.get("/metrics").text, re.MULTILINE))
    guide = text_of("docs/operations.md")
    reported = set(re.findall(r"^\| `(\w+)\{?", guide, re.MULTILINE))
    assert families <= reported, "not in the table of docs/operations.md"
    operations = set(re.findall(r'^database_call_seconds_count{.*operation="(\w+)"', service.get("/metrics").text,
                                re.MULTILINE))
    (line,) = re.findall(r"^\| `database_call_seconds.*$", guide, re.MULTILINE)
    assert operations <= set(re.findall(r"`(\w+)`", line)), "operations that the guide does not name"


def test_the_age_of_the_oldest_waiting_event_is_reported(store, receiver, serve):
    answer = threading.Event()  # an event that failed waits for its retry, and is not counted then
    receiver.answer_with(lambda call: Answer(200, hold=answer))
    write(store)
    service = serve(store)
    try:
        wait_for(lambda: service.total(r'^outbox_oldest_due_seconds{lane="events"}') > 0, 30,
                 lambda: service.get("/metrics").text)
    finally:
        answer.set()
