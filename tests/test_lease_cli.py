"""`deliverd lease …`: every subcommand on both stores."""

import datetime
import hashlib
import json
import os
import pwd

import pytest
from harness.stores import audit, fill, row

COLUMNS = {"outbox_id", "item_id", "target_space", "payload_md", "payload_sha", "status", "retry_count",
           "next_attempt_at", "locked_at", "locked_by", "last_error", "created_at", "updated_at"}
LATER = "2099-01-02T03:04:05Z"


@pytest.fixture
def lease(programs, store):
    def run(*args, **more):
        return programs.run("lease", *args, "--database", store.url, **more)

    return run


@pytest.fixture
def claimed(store, lease):
    """A row that worker `me` holds."""
    (outbox_id,) = fill(store, 1)
    lease("claim", "--worker", "me").ok()
    return outbox_id


def says(finished, truth):
    assert (finished.stdout.strip(), finished.status) == (("true", 0) if truth else ("false", 1)), finished
    return finished


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def test_enqueue_prints_the_id_and_stores_the_digest(store, lease):
    text = "größe **bold**\nsecond line"
    outbox_id = int(lease("enqueue", "--space", "notes", "--payload", text, "--item-id", "7").ok().stdout)
    stored = row(store, outbox_id)
    assert (stored["target_space"], stored["payload_md"], stored["item_id"]) == ("notes", text, 7)
    assert stored["payload_sha"] == hashlib.sha256(text.encode()).hexdigest()
    assert (stored["status"], stored["retry_count"], stored["locked_by"]) == ("pending", 0, None)
    without_item = int(lease("enqueue", "--space", "notes", "--payload", "x").ok().stdout)
    assert row(store, without_item)["item_id"] is None


def test_enqueue_reads_standard_input_and_files(store, lease, tmp_path):
    from_stdin = int(lease("enqueue", "--space", "s", "--payload", "@-", stdin="from a pipe\n").ok().stdout)
    assert row(store, from_stdin)["payload_md"] == "from a pipe\n"
    (tmp_path / "note.md").write_text("from a file")
    from_file = int(lease("enqueue", "--space", "s", "--payload", "@note.md").ok().stdout)
    assert row(store, from_file)["payload_md"] == "from a file"


def test_claim_prints_one_json_object_per_row_in_due_order(store, lease):
    ids = fill(store, 5)
    rows = lease("claim", "--worker", "me", "--limit", "3", "--lease-seconds", "60").ok().json_lines()
    assert [found["outbox_id"] for found in rows] == ids[:3]
    for found in rows:
        assert set(found) == COLUMNS
        assert (found["locked_by"], found["status"]) == ("me", "pending")
        moment(found["locked_at"])
    assert [found["outbox_id"] for found in lease("claim", "--worker", "you").ok().json_lines()] == ids[3:]
    assert lease("claim", "--worker", "you").ok().stdout == ""


def test_claim_as_one_array(store, lease):
    ids = fill(store, 2)
    rows = json.loads(lease("claim", "--worker", "me", "--json").ok().stdout)
    assert [found["outbox_id"] for found in rows] == ids


def test_claim_of_an_expired_lease(store, lease, claimed):
    assert lease("claim", "--worker", "you").ok().stdout == ""
    (taken,) = lease("claim", "--worker", "you", "--lease-seconds", "0").ok().json_lines()
    assert (taken["outbox_id"], taken["locked_by"]) == (claimed, "you")


def test_ack(store, lease, claimed):
    says(lease("ack", "--id", claimed, "--worker", "me", "--memory-id", "m-1"), True)
    settled = row(store, claimed)
    assert (settled["status"], settled["last_error"], settled["locked_by"]) == ("sent", "memory_id=m-1", None)
    says(lease("ack", "--id", claimed, "--worker", "me"), False)


def test_ack_without_a_memory_id(store, lease, claimed):
    says(lease("ack", "--id", claimed, "--worker", "me"), True)
    assert row(store, claimed)["last_error"] is None


def test_fail(store, lease, claimed):
    says(lease("fail", "--id", claimed, "--worker", "me", "--error", "503", "--next-attempt-at", LATER), True)
    waiting = row(store, claimed)
    assert (waiting["status"], waiting["retry_count"], waiting["last_error"]) == ("pending", 1, "503")
    shown = json.loads(lease("show", "--id", claimed).ok().stdout)
    assert moment(shown["next_attempt_at"]) == moment(LATER)
    assert shown["locked_by"] is None and shown["locked_at"] is None


def test_dead(store, lease, claimed):
    says(lease("dead", "--id", claimed, "--worker", "me", "--error", "no such space"), True)
    dead = row(store, claimed)
    assert (dead["status"], dead["retry_count"], dead["last_error"]) == ("dead", 0, "no such space")


def test_renew(store, lease, claimed):
    before = row(store, claimed)["locked_at"]
    says(lease("renew", "--id", claimed, "--worker", "me"), True)
    renewed = row(store, claimed)
    assert renewed["locked_at"] > before and renewed["locked_by"] == "me"


SETTLING = [("ack",), ("fail", "--error", "e", "--next-attempt-at", LATER), ("dead", "--error", "e"), ("renew",)]


@pytest.mark.parametrize("command", SETTLING, ids=lambda command: command[0])
def test_only_the_owner_settles(store, lease, claimed, command):
    before, audited = row(store, claimed), audit(store)
    says(lease(command[0], "--id", claimed, "--worker", "thief", *command[1:]), False)
    says(lease(command[0], "--id", claimed + 999, "--worker", "me", *command[1:]), False)
    assert row(store, claimed) == before
    assert audit(store) == audited, "a command without effect is not audited as a change"


def test_dedup(store, lease, claimed):
    waiting = row(store, claimed)
    question = ("dedup", "--space", waiting["target_space"], "--sha", waiting["payload_sha"])
    assert json.loads(lease(*question).ok().stdout) is None
    lease("ack", "--id", claimed, "--worker", "me", "--memory-id", "m-1").ok()
    answer = json.loads(lease(*question).ok().stdout)
    assert (answer["outbox_id"], answer["memory_id"]) == (claimed, "m-1")
    assert json.loads(lease("dedup", "--space", "elsewhere", "--sha", waiting["payload_sha"]).ok().stdout) is None


def test_show(store, lease):
    (outbox_id,) = fill(store, 1)
    shown = json.loads(lease("show", "--id", outbox_id).ok().stdout)
    assert set(shown) == COLUMNS
    stored = row(store, outbox_id)
    for name in ("outbox_id", "item_id", "target_space", "payload_md", "payload_sha", "status", "retry_count"):
        assert shown[name] == stored[name]
    assert lease("show", "--id", outbox_id + 1).error_line(1)


def test_every_change_is_audited_with_the_user(store, lease):
    ids = fill(store, 3)
    lease("enqueue", "--space", "s", "--payload", "p").ok()
    lease("claim", "--worker", "me").ok()
    lease("ack", "--id", ids[0], "--worker", "me").ok()
    lease("fail", "--id", ids[1], "--worker", "me", "--error", "e", "--next-attempt-at", LATER).ok()
    lease("dead", "--id", ids[2], "--worker", "me", "--error", "e").ok()
    user = pwd.getpwuid(os.geteuid()).pw_name
    trail = audit(store)
    assert {found["actor"] for found in trail} == {f"cli:{user}"}
    for outbox_id, status_to, count in ((ids[0], "sent", 0), (ids[1], "pending", 1), (ids[2], "dead", 0)):
        last = [found for found in trail if found["outbox_id"] == outbox_id][-1]
        assert (last["status_from"], last["status_to"], last["retry_count"]) == ("pending", status_to, count)
        assert last["worker"] == "me"


def test_the_default_database_is_a_file_here(programs, tmp_path):
    """Without any configuration: SQLite in ./deliverd.db."""
    assert programs.run("lease", "enqueue", "--space", "s", "--payload", "p").ok().stdout.strip() == "1"
    assert (tmp_path / "deliverd.db").exists()
    assert programs.run("lease", "show", "--id", "1").ok()
