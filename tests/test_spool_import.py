"""`deliverd spool import`: a whole file into the dead letters or the event outbox, on both databases."""

import json
import signal

import pytest
from harness.dead_letters import table
from harness.receiver import Answer
from harness.spool import SpoolFile
from harness.stores import write_config

ENTRIES = 700  # more than one batch


@pytest.fixture
def spool(programs, receiver, tmp_path):
    return SpoolFile(programs, receiver, tmp_path / "hooks.jsonl")


@pytest.fixture
def imported(programs, spool, store):
    def run(to, *words, **how):
        return programs.run("spool", "import", "--file", spool.path, "--to", to, "--database", store.url, "--json", *words,
                            **how)

    return run


def fill(spool):
    """Adds some entries of every state; returns those that the import should move."""
    states = ["pending", "exhausted", "retrying", "resolved"]
    entries = [spool.exhausted(f"job-{number}", state=states[number % 4]) for number in range(ENTRIES)]
    spool.append(*entries)
    return {entry["jobId"]: entry for entry in entries if entry["state"] != "resolved"}


def events(store):
    return store.query("SELECT * FROM outbox ORDER BY id")


def as_json(value):
    return json.loads(value) if isinstance(value, str) else value


def letters(store):
    return store.query(f"SELECT * FROM {table(store)}")


def test_numbers_that_jsonb_would_rewrite_are_refused_as_payload(imported, spool, store, programs):
    numbers = "[" + ",".join(["1e131000"] * 9000) + "]"
    line = json.dumps(spool.exhausted("job-1", "NUMBERS")).replace('"NUMBERS"', numbers)
    spool.path.write_text(line + "\n", encoding="utf-8")
    assert json.loads(imported("dead-letters").ok().stdout)["imported"] == 1
    (row,) = letters(store)
    assert row["payload"] is None and b"1e131000" in bytes(row["record_value"])
    (shown,) = json.loads(programs.run("dlq", "list", "--database", store.url, "--json").ok().stdout)
    assert shown["payload"] is None


def test_to_the_dead_letters(imported, spool, store, programs, receiver, tmp_path):
    moved = fill(spool)
    with open(spool.path, "a", encoding="utf-8") as file:
        file.write("no entry\n")
    before = spool.path.read_text()
    planned = json.loads(imported("dead-letters", "--dry-run").ok().stdout)
    assert planned == {"to": "dead-letters", "name": "hook", "imported": len(moved), "refused": 0,
                       "kept": ENTRIES - len(moved), "rejected": 1, "dry_run": True}
    assert (spool.path.read_text(), letters(store)) == (before, [])
    done = json.loads(imported("dead-letters", "--name", "hooks").ok().stdout)
    assert done == {"to": "dead-letters", "name": "hooks", "imported": len(moved), "refused": 0,
                    "kept": ENTRIES - len(moved), "rejected": 1}
    assert set(spool.states().values()) == {"resolved"} and len(spool.entries) == ENTRIES - len(moved)
    stored = letters(store)
    assert {bytes(row["record_key"]).decode() for row in stored} == set(moved) and len(stored) == len(moved)
    assert {(row["source"], row["status"], row["original_topic"]) for row in stored} \
        == {("spool:hooks", "PENDING", "hooks")}
    assert all(json.loads(bytes(row["record_value"])) == moved[bytes(row["record_key"]).decode()] for row in stored)
    assert json.loads(imported("dead-letters", "--name", "hooks").ok().stdout)["imported"] == 0

    # An entry that is no longer in a file can be put back into any spool of that name.
    receiver.answer_with(lambda call: Answer(200, {}))
    config = write_config(tmp_path, None, database={"url": store.url},
                          spools={"hooks": {"path": str(tmp_path / "other.jsonl")}})
    reported = json.loads(programs.run("dlq", "retry-all", "hooks", "--config", config, "--json").ok().stdout)
    assert reported["retried"] == len(moved)
    other = SpoolFile(programs, receiver, tmp_path / "other.jsonl")
    assert other.states() == dict.fromkeys(moved, "pending")
    assert other.retry()[0]["resolved"] == len(moved)
    assert receiver.times() == dict.fromkeys(moved, 1)


def test_to_the_event_outbox(imported, spool, store):
    moved = fill(spool)
    spool.append(spool.exhausted("j" * 300, payload=[1, "two"], state="pending"))
    done = json.loads(imported("events", "--type", "HookFailed").ok().stdout)
    assert (done["imported"], done["refused"]) == (len(moved) + 1, 0)
    rows = events(store)
    assert [row["aggregate_id"] for row in rows[:-1]] == list(moved), "in the file's order"
    assert {row["event_type"] for row in rows} == {"HookFailed"}
    assert [as_json(row["payload"]) for row in rows] == [entry["data"]["hook"] for entry in moved.values()] + [[1, "two"]]
    assert rows[-1]["aggregate_id"] == str(rows[-1]["event_id"]), "a name that is too long"
    assert as_json(rows[0]["metadata"]) == {"idempotencyKey": "job-0", "endpoint": spool.endpoint, "spool": "hook",
                                            "attemptsMade": "5", "timestamp": "1770000000000", "error": "HTTP 503"}
    audit = store.query("SELECT * FROM outbox_audit WHERE outbox = 'events'")
    assert {line["outbox_id"] for line in audit} == {row["id"] for row in rows}
    assert {(line["reason"], line["actor"].startswith("cli:")) for line in audit} == {("event_imported", True)}
    assert set(spool.states().values()) == {"resolved"}


@pytest.mark.parametrize("to", ["dead-letters", "events"])
@pytest.mark.parametrize("passage", [1, 2])
def test_killed_before_the_file_is_changed_and_repeated(imported, programs, spool, store, to, passage):
    moved = fill(spool)
    before = spool.path.read_text()
    victim = programs.start("spool", "import", "--file", spool.path, "--to", to, "--database", store.url,
                            failpoints=f"spool.after_store=crash@{passage}")
    assert victim.wait() == -signal.SIGKILL
    stored = events if to == "events" else letters
    assert len(stored(store)) == (500, len(moved))[passage - 1]
    assert spool.path.read_text() == before
    receiver_was_tried = spool.run("retry", "--json")  # others may use the file meanwhile: nothing is due
    assert receiver_was_tried.status == 0
    assert json.loads(imported(to).ok().stdout)["imported"] == len(moved)
    assert len(stored(store)) == len(moved), "nothing twice"
    assert set(spool.states().values()) == {"resolved"}, "and nothing left"
    remembered = "deliverd.imports" if store.kind == "postgres" else "deliverd_imports"
    assert store.query(f"SELECT count(*) AS n FROM {remembered}") == [{"n": 0}], "the keys are not needed any more"


def test_entries_the_database_cannot_store_stay(programs, spool, postgres):
    """JavaScript writes lone surrogates, which PostgreSQL's jsonb refuses."""
    spool.append(spool.exhausted("a"))
    with open(spool.path, "a", encoding="utf-8") as file:
        file.write(json.dumps(spool.exhausted("odd", "HALF")).replace("HALF", "\\ud800") + "\n")
    spool.append(spool.exhausted("b"))
    done = programs.run("spool", "import", "--file", spool.path, "--to", "events", "--database", postgres.url, "--json")
    assert (done.status, json.loads(done.stdout)["imported"], json.loads(done.stdout)["refused"]) == (1, 2, 1)
    assert "the database cannot hold odd; it stays in the file" in done.stderr
    assert spool.states() == {"odd": "exhausted"}
    assert [row["aggregate_id"] for row in events(postgres)] == ["a", "b"]
    letters_too = programs.run("spool", "import", "--file", spool.path, "--to", "dead-letters", "--database",
                               postgres.url, "--json").ok()
    assert json.loads(letters_too.stdout)["imported"] == 1, "a letter keeps the bytes"
    (letter,) = letters(postgres)
    assert letter["payload"] is None and b"\\ud800" in bytes(letter["record_value"])


def test_wrong_usage_says_what_is_wrong(programs, spool, sqlite):
    assert "--to" in programs.run("spool", "import", "--file", spool.path, "--database", sqlite.url).error_line(2)
    wrong = programs.run("spool", "import", "--file", spool.path, "--to", "orders", "--database", sqlite.url)
    assert "dead-letters" in wrong.error_line(2)
    missing = programs.run("spool", "import", "--file", spool.path, "--to", "events", "--database", sqlite.url)
    assert "No such file" in missing.error_line(1)
