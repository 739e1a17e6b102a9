"""docs/events.md: its commands work and print what it shows."""

import json
import re
import sqlite3

import psycopg
import pytest
from harness.documents import blocks, text_of
from harness.event_lanes import always_ok, events_config, kcat, row, start_relay, state, wait_for_state, write
from harness.process import build_dir
from harness.receiver import Answer
from harness.waiting import wait_for

PAGE = "docs/events.md"
FIRST, LEGACY = 0, 1  # the page's configurations


@pytest.fixture
def page_config(tmp_path):
    """One of the page's configurations, with the test servers in place of those shown."""

    def write_config(number, database_url, kafka=None):
        text = blocks(PAGE, "yaml")[number]
        if "database:" in text:
            text, swapped = re.subn(r"postgres://[^\"]+", database_url, text)
            assert swapped == 1
        if kafka is not None:
            text, swapped = re.subn(r"127\.0\.0\.1:9092", kafka.brokers, text)
            assert swapped == 1
        path = tmp_path / "deliverd.yaml"
        path.write_text(text)
        return path

    return write_config


def test_from_the_first_configuration_to_the_broker(empty_database, kafka, programs, page_config, tmp_path):
    """migrate, a relay by either command, the SQL shown, and the message where the page says it arrives."""
    page_config(FIRST, empty_database.url, kafka)
    (tmp_path / "build").symlink_to(build_dir())
    typed = re.findall(r"`build/deliverd ([^`]+)`", text_of(PAGE))
    assert [words.split()[0] for words in typed] == ["migrate", "serve", "worker"]
    programs.run(*typed[0].split()).ok()
    empty_database.query("CREATE TABLE shop_orders (id int PRIMARY KEY, state text)")
    empty_database.query("INSERT INTO shop_orders VALUES (1, 'new')")
    kafka.create_topic("order.paid")
    one_call, sql = blocks(PAGE, "sql")
    with psycopg.connect(empty_database.url) as connection:
        connection.execute(one_call)
        connection.rollback()
    with psycopg.connect(empty_database.url, autocommit=True) as connection:
        connection.execute(sql)
    assert empty_database.query("SELECT state FROM shop_orders") == [{"state": "paid"}]
    programs.start(*typed[2].split())
    event = empty_database.query("SELECT id FROM outbox")[0]["id"]
    wait_for_state(empty_database, event, "published")
    (message,) = kcat(kafka, "order.paid")
    assert (message["key"], message["payload"]) == ("order-1", '{"total": 42}')
    assert [name for name, _ in message["headers"]] == \
        ["message_id", "aggregate_id", "event_type", "created_at", "traceparent"]


def test_the_legacy_configuration_relays_debeziums_table(postgres, kafka, programs, page_config):
    config = page_config(LEGACY, None, kafka)
    columns = re.search(r"`columns: debezium` is `([^`]+)`", text_of(PAGE))[1].split(", ")
    postgres.query("CREATE SCHEMA shop")
    postgres.query(f"CREATE TABLE shop.outboxevent ({columns[0]} bigserial PRIMARY KEY, "
                   + ", ".join(f"{name} {'jsonb' if name == 'payload' else 'text'}" for name in columns[1:]) + ")")
    postgres.query(f"INSERT INTO shop.outboxevent ({', '.join(columns[1:])}) VALUES ('order', 'o1', 'Paid', '7')")
    kafka.create_topic("outbox.event.order")
    start = programs.start("worker", "--lane", "legacy", "--loop", "--config", config, "--database", postgres.url)
    wait_for(lambda: not postgres.query("SELECT id FROM shop.outboxevent"), 30, lambda: start.stderr)
    (message,) = kcat(kafka, "outbox.event.order")
    assert (message["key"], message["payload"]) == ("o1", "7")


@pytest.mark.parametrize("number", [FIRST, LEGACY])
def test_its_configurations_are_valid(programs, tmp_path, number):
    (tmp_path / "deliverd.yaml").write_text(blocks(PAGE, "yaml")[number])
    programs.run("config", "check").ok()


def test_a_plain_insert_does_the_same(store):
    """On both stores, with the columns shown."""
    insert = re.search(r"`(INSERT INTO outbox [^`]+) VALUES \(…\)`", text_of(PAGE))[1]
    store.query(f"{insert} VALUES ('order-1', 'OrderPaid', '{{}}') RETURNING id")
    (found,) = store.query("SELECT id FROM outbox")
    assert state(store, found["id"]) == "open" and row(store, found["id"])["metadata"] == "{}"


def test_the_rules_for_the_arguments(postgres, sqlite):
    """1 to 255 characters, any JSON, metadata an object."""
    wrong = [("", "T", "{}", "{}"), ("a" * 256, "T", "{}", "{}"), ("a", "", "{}", "{}"), ("a", "T" * 256, "{}", "{}"),
             ("a", "T", "{nonsense", "{}"), ("a", "T", "{}", "[]")]
    for arguments in wrong:
        with pytest.raises(psycopg.Error):
            postgres.query("SELECT deliverd.add_event(?, ?, ?, ?)", *arguments)
        with pytest.raises(sqlite3.Error):
            write(sqlite, *arguments)
    for payload in ("1", "null", '"x"', "[]", "{}"):
        postgres.query("SELECT deliverd.add_event(?, ?, ?)", "ä" * 255, "T" * 255, payload)
        write(sqlite, "ä" * 255, "T" * 255, payload)


def test_the_shell_example_adds_an_event(sqlite, programs, tmp_path):
    (command,) = re.findall(r"^\| the shell \| `deliverd ([^`]+)` \|$", text_of(PAGE), re.MULTILINE)
    (tmp_path / "deliverd.yaml").write_text(json.dumps({"database": {"url": sqlite.url}}))
    words = [word.strip("'") for word in re.findall(r"'[^']*'|\S+", command)]
    programs.run(*words).ok()
    assert sqlite.query("SELECT aggregate_id, event_type, payload FROM outbox") == \
        [{"aggregate_id": "order-1", "event_type": "OrderPaid", "payload": '{"total": 42}'}]


def test_the_commands_for_listing_and_cleanup(store, programs, tmp_path):
    (tmp_path / "deliverd.yaml").write_text(json.dumps({"database": {"url": store.url}}))
    event = write(store)
    (shown,) = [block for block in blocks(PAGE, "") if block.startswith("deliverd outbox")]
    lines = [line.partition("#") for line in shown.splitlines()]
    assert len(lines) == 4
    reported = {}
    for command, _, comment in lines:
        words = command.replace("[", "").replace("]", "").replace("--aggregate ID", "--aggregate order-1")
        reported[words.split()[2]] = (programs.run(*words.replace("ID", str(event)).split()[1:]).ok().stdout, comment)
    output, comment = reported["stats"]
    assert [line.split()[0] for line in output.splitlines()] == comment.strip().split(", ")
    assert "order-1" in reported["list"][0]
    assert json.loads(reported["show"][0])["id"] == event
    assert reported["cleanup"][0].strip() == "0"


def test_the_documented_defaults_are_in_force(programs, tmp_path):
    (tmp_path / "deliverd.yaml").write_text(blocks(PAGE, "yaml")[FIRST])
    shown = programs.run("config", "show").ok().stdout
    values = {words[0]: words[1] for words in map(str.split, shown.splitlines()) if len(words) > 2}
    text = " ".join(text_of(PAGE).split())
    for setting, sentence in [("shards", r"has (\S+) shards \(`shards`\)"),
                              ("lease_seconds", r"leases of (\S+) seconds \(`lease_seconds`\)"),
                              ("busy_poll_ms", r"every (\S+) ms while there is work \(`busy_poll_ms`\)"),
                              ("retry.max", r"failed `retry.max` times, (\d+) by default")]:
        assert values[f"lanes.events.{setting}"] == re.search(sentence, text)[1], setting
    assert values["lanes.events.idle_poll_ms"] == "1000" and "at least once a second (`idle_poll_ms`)" in text
    assert values["lanes.events.keep_published"] in ("7d", "604800") and "after 7 days (`keep_published`)" in text
    assert values["lanes.events.retry.cap_seconds"] in ("300", "5m") and "at most 5 minutes" in text
    assert values["lanes.events.retry.jitter"] == "0.2" and "±20 %" in text


def test_the_states_match_the_page(store, programs, receiver, tmp_path):
    receiver.answer_with(lambda call: Answer({b"1": 200, b"2": 503}.get(call.raw_body, 400), {}))
    ids = [write(store, f"order-{number}", payload=str(number)) for number in (1, 2, 3)]
    start_relay(programs, events_config(tmp_path, store, {"type": "http", "url": receiver.url}))
    for event, wanted in zip(ids, ("published", "waiting", "dead")):
        wait_for_state(store, event, wanted)
    published, waiting, dead = (row(store, event) for event in ids)
    assert published["published_at"] is not None
    assert waiting["retry_count"] > 0 and waiting["next_attempt_at"] is not None
    assert dead["dead_at"] is not None and dead["last_error"]


@pytest.mark.parametrize("before, after", [(8, 64), (64, 8)], ids=["more", "fewer"])
def test_changing_the_number_of_shards_as_documented(store, programs, receiver, tmp_path, before, after):
    """A rolling restart: a relay with the new number waits until the last one with the old number has ended."""
    always_ok(receiver)
    sink = {"type": "http", "url": receiver.url}

    def relay(shards):
        return start_relay(programs, events_config(tmp_path, store, sink, lane={"shards": shards}))

    def numbers():
        table = "deliverd.shards" if store.kind == "postgres" else "deliverd_shards"
        return store.query(f"SELECT count(*) AS n FROM {table} WHERE lane = 'events'")[0]["n"]

    old = relay(before)
    wait_for_state(store, write(store), "published")
    new = [relay(after), relay(after)]
    for waiting in new:
        waiting.wait_for_stderr(f"the lane events is relayed with {before} shards")
    wait_for_state(store, write(store), "published")
    assert numbers() == before, "the old one does the work"
    old.terminate()
    assert old.wait() == 0
    wait_for_state(store, write(store), "published")
    assert numbers() == after
    for ended in new:
        ended.terminate()
        assert ended.wait() == 0
