"""The examples that write an event in the caller's own transaction, run as a user would run them."""

import json
import subprocess
import sys

import psycopg
import pytest
from harness.documents import blocks
from harness.process import ROOT, program
from harness.runtimes import go_example, node_program

DEADLINE_SECONDS = 240
EXAMPLES = ROOT / "examples"
TABLE = "CREATE TABLE shop_orders (id serial PRIMARY KEY, total int NOT NULL)"
SQLITE_TABLE = "CREATE TABLE shop_orders (id integer PRIMARY KEY, total int NOT NULL)"
COMMANDS = {
    "C++": lambda folder: [program("example_events")],
    "psycopg": lambda folder: [sys.executable, EXAMPLES / "events_psycopg.py"],
    "SQLAlchemy": lambda folder: [sys.executable, EXAMPLES / "events_sqlalchemy.py"],
    "Node": lambda folder: node_program(EXAMPLES / "events.mjs", folder),
    "Ruby": lambda folder: ["ruby", EXAMPLES / "events.rb"],
    "Go": lambda folder: go_example(),
}


@pytest.fixture(params=COMMANDS)
def example(request, tmp_path):
    return COMMANDS[request.param](tmp_path)


@pytest.fixture
def shop(postgres):
    postgres.query(TABLE)
    return postgres


def run(programs, example, url, *args):
    # PGSSLMODE: Go's driver uses TLS by default, and the test server has none.
    environment = programs.environment({"DATABASE_URL": url, "PGSSLMODE": "disable"})
    return subprocess.run([*map(str, example), *args], cwd=programs.folder, env=environment, capture_output=True,
                          text=True, timeout=DEADLINE_SECONDS)


def good_run(programs, example, url):
    done = run(programs, example, url)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def failed_run(programs, example, url):
    done = run(programs, example, url, "--fail")
    assert (done.returncode, done.stdout) == (1, ""), done.stdout + done.stderr
    assert "the card was refused" in done.stderr


def orders(store):
    return store.query("SELECT id, total FROM shop_orders ORDER BY id")


def events(store):
    """Every column except those that differ each time."""
    return store.query("SELECT id, aggregate_id, event_type, payload, metadata, published, published_at, retry_count,"
                       " next_attempt_at, last_error, dead_at FROM outbox ORDER BY id")


def event(number, order, payload=dict, published=False):
    return {"id": number, "aggregate_id": f"order-{order}", "event_type": "OrderCreated",
            "payload": payload({"order_id": order, "total": 42}), "metadata": payload({"tenant": "acme"}),
            "published": published, "published_at": None, "retry_count": 0, "next_attempt_at": None,
            "last_error": None, "dead_at": None}


def distinct_event_ids(store):
    return store.query("SELECT count(DISTINCT event_id) AS n FROM outbox")[0]["n"]


def test_order_and_event_are_stored_together(example, shop, programs):
    assert good_run(programs, example, shop.url) == "order 1, event 1\n"
    assert orders(shop) == [{"id": 1, "total": 42}]
    assert events(shop) == [event(1, order=1)]


def test_two_runs_make_two_events(example, shop, programs):
    shop.query("SELECT nextval('shop_orders_id_seq')")  # from here on orders and events have different numbers
    good_run(programs, example, shop.url)
    assert good_run(programs, example, shop.url) == "order 3, event 2\n"
    assert orders(shop) == [{"id": 2, "total": 42}, {"id": 3, "total": 42}]
    assert events(shop) == [event(1, order=2), event(2, order=3)]
    assert distinct_event_ids(shop) == 2


def test_a_failure_after_both_writes_leaves_neither(example, shop, programs):
    failed_run(programs, example, shop.url)
    assert (orders(shop), events(shop)) == ([], [])
    for sequence in ("shop_orders_id_seq", "outbox_id_seq"):  # what a rollback leaves: both were written before it
        assert shop.query(f"SELECT last_value, is_called FROM {sequence}") == [{"last_value": 1, "is_called": True}]
    good_run(programs, example, shop.url)
    assert events(shop) == [event(2, order=2)]


def test_the_cpp_example_on_sqlite(sqlite, programs):
    sqlite.query(SQLITE_TABLE)
    example = [program("example_events")]
    failed_run(programs, example, sqlite.url)
    assert (orders(sqlite), events(sqlite)) == ([], [])
    assert good_run(programs, example, sqlite.url) == "order 1, event 1\n"
    assert good_run(programs, example, sqlite.url) == "order 2, event 2\n"
    assert orders(sqlite) == [{"id": 1, "total": 42}, {"id": 2, "total": 42}]
    assert events(sqlite) == [event(number, number, payload=json.dumps, published=0) for number in (1, 2)]
    assert distinct_event_ids(sqlite) == 2


@pytest.fixture
def writer_url(shop):
    """A role with only the privileges that docs/events.md grants a writer."""
    role = f"writer_of_{shop.database}"
    for grant in (f"CREATE ROLE {role} LOGIN", f"GRANT ALL ON shop_orders, shop_orders_id_seq TO {role}",
                  f"GRANT INSERT ON outbox TO {role}", f"GRANT USAGE ON SEQUENCE outbox_id_seq TO {role}",
                  f"GRANT USAGE ON SCHEMA deliverd TO {role}"):
        shop.query(grant)
    yield shop.url.replace("postgres@", f"{role}@")
    shop.query(f"DROP OWNED BY {role}")
    shop.query(f"DROP ROLE {role}")


def test_a_writer_needs_only_the_documented_privileges(shop, writer_url, programs):
    example = COMMANDS["psycopg"](programs.folder)
    failed_run(programs, example, writer_url)
    assert good_run(programs, example, writer_url) == "order 2, event 2\n"
    assert events(shop) == [event(2, order=2)]
    for statement in ("SELECT id FROM outbox", "DELETE FROM outbox", "SELECT * FROM deliverd.shards"):
        with psycopg.connect(writer_url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement)


def test_the_readme_shows_what_the_example_does():
    lines = {line.partition(" #")[0].strip() for line in (EXAMPLES / "events.rb").read_text().splitlines()}
    two_writes, one_write = blocks("README.md", "ruby")
    assert "broker.publish" in two_writes
    assert {line.partition(" #")[0].strip() for line in one_write.splitlines()} <= lines
