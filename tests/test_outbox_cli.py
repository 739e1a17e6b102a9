"""`deliverd outbox …`: every subcommand on both stores."""

import json
import os
import pwd

import pytest
from harness.stores import audit

COLUMNS = ["id", "aggregate_id", "event_type", "payload", "created_at", "published_at", "published", "event_id",
           "metadata", "retry_count", "next_attempt_at", "last_error", "dead_at"]
STATS = {"total", "unpublished", "published", "dead", "oldest_unpublished_age_seconds", "max_retries"}
BATCH = 1000  # rows that one transaction of a cleanup deletes


@pytest.fixture
def outbox(programs, store):
    def run(*args, **more):
        return programs.run("outbox", *args, "--database", store.url, **more)

    return run


@pytest.fixture
def add(outbox):
    def run(aggregate="order-1", event_type="OrderCreated", payload="{}", *more):
        return int(outbox("add", "--aggregate", aggregate, "--type", event_type, "--payload", payload, *more)
                   .ok().stdout)

    return run


def moment(store, days):
    if store.kind == "postgres":
        return f"now() - interval '{days} days'"
    return f"strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-{days} days')"


def age_published(store, days):
    store.query(f"UPDATE outbox SET published_at = {moment(store, days)} WHERE published RETURNING id")


def kill(store, event_id):
    store.query(f"UPDATE outbox SET dead_at = {moment(store, 0)} WHERE id = ? RETURNING id", event_id)


def test_add_prints_the_id_and_stores_the_event(store, outbox, add):
    event_id = add("größe-1", "OrderCreated", '{"total": 42, "note": "ä"}', "--metadata", '{"traceparent": "00-a-b-01"}')
    (row,) = store.query("SELECT id, aggregate_id, event_type, published, retry_count FROM outbox")
    assert (row["id"], row["aggregate_id"], row["event_type"]) == (event_id, "größe-1", "OrderCreated")
    assert not row["published"] and row["retry_count"] == 0
    shown = json.loads(outbox("show", event_id).ok().stdout)
    assert list(shown) == COLUMNS
    assert shown["payload"] == {"total": 42, "note": "ä"}
    assert shown["metadata"] == {"traceparent": "00-a-b-01"}
    assert outbox("show", event_id + 1).error_line(1)


def test_add_reads_files_and_standard_input(outbox, add, tmp_path):
    (tmp_path / "event.json").write_text('{"from": "a file"}')
    add("a", "T", "@event.json")
    outbox("add", "--aggregate", "a", "--type", "T", "--payload", "-", stdin='{"from": "a pipe"}\n').ok()
    listed = json.loads(outbox("list", "--json").ok().stdout)
    assert [event["payload"]["from"] for event in listed] == ["a file", "a pipe"]


@pytest.mark.parametrize("wrong", [
    ("--aggregate", "", "--type", "T", "--payload", "{}"),
    ("--aggregate", "a" * 256, "--type", "T", "--payload", "{}"),
    ("--aggregate", "a", "--type", "T", "--payload", "{nonsense"),
    ("--aggregate", "a", "--type", "T", "--payload", "{}", "--metadata", "[]"),
    ("--aggregate", "a", "--type", "T", "--payload", "@nowhere.json"),
], ids=["no aggregate", "long aggregate", "no JSON", "no object", "no file"])
def test_wrong_input_is_refused_in_one_line(store, outbox, add, wrong):
    add()
    outbox("add", *wrong).error_line(2)
    assert store.query("SELECT count(*) AS n FROM outbox")[0]["n"] == 1


def test_list_shows_unpublished_events_or_all_of_an_aggregate(store, outbox, add):
    ids = [add("order-1"), add("order-2"), add("order-1"), add("order-2")]
    outbox("mark", "--id", ids[0]).ok()
    kill(store, ids[1])
    listed = json.loads(outbox("list", "--json").ok().stdout)
    assert [event["id"] for event in listed] == ids[2:]
    assert all(list(event) == COLUMNS for event in listed)
    assert len(json.loads(outbox("list", "--json", "--limit", "1").ok().stdout)) == 1
    of_one = json.loads(outbox("list", "--aggregate", "order-1", "--json").ok().stdout)
    assert [(event["id"], event["published"]) for event in of_one] == [(ids[0], True), (ids[2], False)]
    table = outbox("list", "--aggregate", "order-2").ok().stdout.splitlines()
    assert table[0].split() == ["id", "aggregate_id", "event_type", "state", "retries", "created_at", "last_error"]
    assert [line.split()[3] for line in table[1:]] == ["dead", "unpublished"]


def test_stats_has_exactly_these_figures(store, outbox, add):
    assert json.loads(outbox("stats", "--json").ok().stdout)["oldest_unpublished_age_seconds"] is None
    ids = [add() for _ in range(5)]
    outbox("mark", "--id", ids[0]).ok()
    kill(store, ids[1])
    outbox("retry-count", "--id", ids[2]).ok()
    outbox("retry-count", "--id", ids[2]).ok()
    stats = json.loads(outbox("stats", "--json").ok().stdout)
    assert set(stats) == STATS
    assert (stats["total"], stats["unpublished"], stats["published"], stats["dead"]) == (5, 3, 1, 1)
    assert stats["max_retries"] == 2 and 0 <= stats["oldest_unpublished_age_seconds"] < 3600
    assert {line.split()[0] for line in outbox("stats").ok().stdout.splitlines()} == STATS


def test_mark(store, outbox, add):
    event_id = add()
    for truth, status in ((True, 0), (False, 1)):
        finished = outbox("mark", "--id", event_id)
        assert (finished.stdout.strip(), finished.status) == (str(truth).lower(), status)
    assert outbox("mark", "--id", event_id + 1).status == 1


def test_retry_count(store, outbox, add):
    event_id = add()
    assert outbox("retry-count", "--id", event_id, "--error", "broker said 503").ok().stdout == "1\n"
    assert outbox("retry-count", "--id", event_id).ok().stdout == "2\n"
    (row,) = store.query("SELECT retry_count, last_error FROM outbox")
    assert (row["retry_count"], row["last_error"]) == (2, "broker said 503")
    outbox("mark", "--id", event_id).ok()
    outbox("retry-count", "--id", event_id).error_line(1)


def test_cleanup_deletes_in_batches_until_done(store, outbox, add):
    add()
    count = 2 * BATCH + 7
    store.query("INSERT INTO outbox (aggregate_id, event_type, payload, published) WITH RECURSIVE n (i) AS (SELECT 1"
                f" UNION ALL SELECT i + 1 FROM n WHERE i < {count}) SELECT 'a', 'T', '{{}}', true FROM n RETURNING id")
    age_published(store, 6)
    assert outbox("cleanup").ok().stdout == "0\n", "seven days by default"
    finished = outbox("cleanup", "--older-than", "5d").ok()
    assert (finished.stdout, finished.stderr) == (f"{count}\n", "")
    assert json.loads(outbox("cleanup", "--older-than", "0", "--json").ok().stdout) == {"deleted": 0}
    assert store.query("SELECT count(*) AS n FROM outbox")[0]["n"] == 1
    deleted = audit(store, "events_deleted")
    assert [line["detail"].split()[0] for line in deleted] == [str(BATCH), str(BATCH), "7"]


def test_every_change_is_audited_with_the_user(store, outbox, add):
    event_id = add()
    outbox("retry-count", "--id", event_id, "--error", "e").ok()
    outbox("mark", "--id", event_id).ok()
    outbox("mark", "--id", event_id)
    outbox("list").ok()
    user = pwd.getpwuid(os.geteuid()).pw_name
    trail = audit(store)
    assert [line["reason"] for line in trail] == ["event_added", "event_retry_counted", "event_marked_published"]
    assert {(line["outbox"], line["outbox_id"], line["actor"]) for line in trail} == {("events", event_id, f"cli:{user}")}


def test_reading_creates_no_database(programs, tmp_path):
    programs.run("outbox", "stats").error_line(1)
    assert not (tmp_path / "deliverd.db").exists()
