"""Bad input of every kind: one clear line, exit status 1 or 2, nothing lost."""

import os
import socket
import subprocess

import pytest
from harness.ports import free_port
from harness.process import program
from harness.stores import SqliteStore, by_status, fill, row, write_config

MEBIBYTE = 1024 * 1024


def refused(finished, *words, status=None):
    """The command failed with one line on standard error that contains these words, and printed nothing else."""
    line = finished.error_line(finished.status if status is None else status)
    assert finished.status in (1, 2)
    assert finished.stdout == ""
    for word in words:
        assert word in line, line
    return line


# ---- the lease commands ----

@pytest.mark.parametrize("args, words", [
    (("claim", "--worker", ""), ("worker",)),
    (("claim", "--worker", "w", "--limit", "0"), ("limit", "0")),
    (("claim", "--worker", "w", "--limit", "-5"), ("limit", "-5")),
    (("claim", "--worker", "w", "--lease-seconds", "-1"), ("lease", "-1")),
    (("claim", "--worker", "w", "--lease-seconds", "nan"), ("lease",)),
    (("ack", "--id", "1", "--worker", ""), ("worker",)),
    (("renew", "--id", "1", "--worker", ""), ("worker",)),
    (("dead", "--id", "1", "--worker", "", "--error", "e"), ("worker",)),
    (("fail", "--id", "1", "--worker", "", "--error", "e", "--next-attempt-at", "2099-01-01T00:00:00Z"), ("worker",)),
    (("fail", "--id", "1", "--worker", "w", "--error", "e", "--next-attempt-at", "tomorrow"), ("tomorrow",)),
    (("ack", "--id", "one", "--worker", "w"), ("--id", "one")),
    (("claim",), ("--worker",)),
    (("enqueue", "--space", "", "--payload", "p"), ("space",)),
    (("enqueue", "--space", "s", "--payload", "@no/such/file"), ("no/such/file",)),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) else None)
def test_bad_arguments(store, programs, args, words):
    fill(store, 2)
    before = store.query("SELECT * FROM outbox_memory ORDER BY outbox_id")
    refused(programs.run("lease", *args, "--database", store.url), *words)
    assert store.query("SELECT * FROM outbox_memory ORDER BY outbox_id") == before


@pytest.mark.parametrize("payload, word", [(b"a\x00b", "NUL"), (b"caf\xe9", "UTF-8"), (b"\xed\xa0\x80", "UTF-8"),
                                           (b"x" * (10 * MEBIBYTE), str(MEBIBYTE)),
                                           (b"x" * (MEBIBYTE + 1), str(MEBIBYTE))],
                         ids=["nul", "latin1", "surrogate", "10MiB", "1MiB+1"])
def test_payloads_that_cannot_be_stored(store, programs, tmp_path, payload, word):
    (tmp_path / "payload").write_bytes(payload)
    refused(programs.run("lease", "enqueue", "--space", "s", "--payload", "@payload", "--database", store.url), word)
    assert by_status(store) == {}


def test_a_payload_of_exactly_the_limit_is_stored(store, programs, tmp_path):
    (tmp_path / "payload").write_bytes(b"x" * MEBIBYTE)
    done = programs.run("lease", "enqueue", "--space", "s", "--payload", "@payload", "--database", store.url).ok()
    assert len(row(store, int(done.stdout))["payload_md"]) == MEBIBYTE


def insert_bytes(store, hex_bytes):
    """A row between two others, as a program without deliverd's library may write it."""
    fill(store, 1)
    store.query("INSERT INTO outbox_memory (target_space, payload_md, payload_sha)"
                f" VALUES ('s', CAST(x'{hex_bytes}' AS TEXT), 'unknown')")
    fill(store, 1, start=2)


def test_a_row_that_is_not_text_is_dead_and_does_not_stop_the_others(sqlite, receiver, programs, tmp_path):
    """SQLite lets an INSERT store bytes that JSON cannot contain. Sending other bytes would change the message."""
    insert_bytes(sqlite, "61ff62")
    config = write_config(tmp_path, sqlite, receiver)
    programs.run("worker", "--lane", "memories", "--once", "--config", config)
    assert by_status(sqlite) == {"sent": 2, "dead": 1}
    assert sorted(receiver.times()) == ["memory-1", "memory-3"]
    (dead,) = sqlite.query("SELECT last_error FROM outbox_memory WHERE outbox_id = 2")
    assert "payload_md is not valid UTF-8" in dead["last_error"]
    assert sqlite.query("SELECT reason, status_to FROM outbox_audit WHERE outbox_id = 2") == [
        {"reason": "outbox_flush_dead", "status_to": "dead"}]


def test_a_nul_byte_arrives(sqlite, receiver, programs, tmp_path):
    insert_bytes(sqlite, "610062")
    config = write_config(tmp_path, sqlite, receiver)
    programs.run("worker", "--lane", "memories", "--once", "--config", config).ok()
    assert by_status(sqlite) == {"sent": 3}
    (call,) = [call for call in receiver.calls if call.key == "memory-2"]
    assert (call.body["payload_md"], call.body["payload_sha"]) == ("a\x00b", "unknown")


def test_a_payload_that_is_a_folder_stores_nothing(store, programs, tmp_path):
    refused(programs.run("lease", "enqueue", "--space", "s", "--payload", f"@{tmp_path}", "--database", store.url),
            str(tmp_path), "directory", status=2)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        done = subprocess.run([program("deliverd"), "lease", "enqueue", "--space", "s", "--payload", "@-", "--database",
                               store.url], stdin=folder, capture_output=True, text=True, cwd=tmp_path,
                              env=programs.environment(), timeout=240)
    finally:
        os.close(folder)
    assert (done.returncode, done.stdout) == (2, "") and "directory" in done.stderr
    assert by_status(store) == {}


@pytest.mark.parametrize("args", [("lease", "claim", "--worker", "w"), ("lease", "show", "--id", "1"),
                                  ("config", "show"), ("config", "docs"), ("migrate", "--dry-run"), ("--help",),
                                  ("demo", "--seconds", "30", "--port", "0")], ids=lambda args: " ".join(args))
def test_an_answer_that_cannot_be_written_is_a_failure(sqlite, programs, tmp_path, args):
    fill(sqlite, 1)
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([program("deliverd"), *args], stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
                              env=programs.environment({"DATABASE_URL": sqlite.url}), timeout=240)
    assert done.returncode == 1, done
    assert "standard output" in done.stderr and done.stderr.count("\n") == 1


# ---- configuration ----

def test_a_missing_configuration(programs):
    refused(programs.run("serve", "--config", "no/such/file.yaml"), "no/such/file.yaml", status=2)


def test_a_configuration_that_is_a_folder(programs, tmp_path):
    (tmp_path / "folder.yaml").mkdir()
    refused(programs.run("serve", "--config", "folder.yaml"), "folder.yaml", status=2)


def test_config_path_from_the_environment(programs):
    refused(programs.run("serve", env={"CONFIG_PATH": "from/environment.yaml"}), "from/environment.yaml", status=2)


@pytest.mark.parametrize("text, words", [
    ("server:\n  port: 8080\n bad indent: [\n", ("c.yaml:3",)),
    ("server:\n  prot: 8080\n", ("c.yaml:2", '"prot"', '"port"')),
    ("sevrer: {}\n", ("c.yaml:1", '"sevrer"', '"server"')),
    ("lanes:\n  m:\n    outbox: memory\n    batch_sise: 3\n    sink: { type: console }\n",
     ("c.yaml:4", '"batch_sise"', '"batch_size"')),
    ("server:\n  port: many\n", ("c.yaml:2", "server.port", "many")),
    ("server:\n  port: 70000\n", ("c.yaml:2", "server.port", "70000")),
    ("lanes:\n  m:\n    outbox: memory\n    sink: { type: htpt, url: 'http://x/' }\n", ("c.yaml:4", "htpt")),
    ("lanes:\n  m:\n    outbox: memory\n    lease_seconds: -1\n    sink: { type: console }\n", ("c.yaml:4", "-1")),
    ("database:\n  url: mysql://x/y\n", ("mysql",)),
    ("server:\n  port: ${NOT_SET_ANYWHERE}\n", ("c.yaml:2", "NOT_SET_ANYWHERE")),
], ids=["broken", "unknown", "unknown section", "unknown in lane", "not a number", "range", "choice", "negative",
        "scheme", "environment"])
def test_wrong_settings_report_the_line_and_the_nearest_valid_name(programs, tmp_path, text, words):
    (tmp_path / "c.yaml").write_text(text)
    for command in (("config", "check"), ("serve",)):
        refused(programs.run(*command, "--config", "c.yaml"), *words, status=2)


def test_config_check_reports_every_problem(programs, tmp_path):
    (tmp_path / "c.yaml").write_text("server:\n  prot: 1\nlanes:\n  m: { outbox: memry }\n")
    done = programs.run("config", "check", "--config", "c.yaml")
    assert done.status == 2
    assert "prot" in done.stderr and "memry" in done.stderr


def test_a_secret_is_never_shown(programs, tmp_path):
    (tmp_path / "c.yaml").write_text("database:\n  url: postgres://u:hunter2@127.0.0.1:1/d\n")
    for command in (("config", "show"), ("config", "show", "--json"), ("config", "check"), ("doctor",), ("migrate",)):
        done = programs.run(*command, "--config", "c.yaml")
        assert "hunter2" not in done.stdout + done.stderr


def test_an_unknown_lane_lists_the_configured_ones(store, receiver, programs, tmp_path):
    config = write_config(tmp_path, store, receiver)
    done = programs.run("worker", "--lane", "memroies", "--once", "--config", config)
    refused(done, "memroies", "memories", status=2)


@pytest.mark.parametrize("flags", [("--batch-size", "0"), ("--lease-seconds", "-1"), ("--max-retries", "x"),
                                   ("--worker-id", ""), ("--loop",)])
def test_wrong_worker_flags(store, receiver, programs, tmp_path, flags):
    fill(store, 1)
    config = write_config(tmp_path, store, receiver)
    refused(programs.run("worker", "--lane", "memories", "--once", "--config", config, *flags), flags[0], status=2)
    assert by_status(store) == {"pending": 1} and receiver.count() == 0


# ---- commands and flags ----

@pytest.mark.parametrize("args, words", [
    (("wroker",), ('"wroker"', '"worker"')),
    (("lease", "clam"), ('"clam"', '"claim"')),
    (("migrate", "--dry-rum"), ('"--dry-rum"', '"--dry-run"')),
    (("lease", "claim", "--worker", "w", "--limmit", "3"), ('"--limmit"', '"--limit"')),
    (("worker", "--lane", "x"), ("--once", "--loop")),
    ((), ("--help",)),
])
def test_unknown_words_suggest_the_nearest(programs, args, words):
    refused(programs.run(*args), *words, status=2)


def test_version_and_help(programs):
    assert programs.run("--version").ok().stdout.startswith("deliverd ")
    assert "worker" in programs.run("--help").ok().stdout


# ---- the database ----

@pytest.fixture(params=["no server", "no database", "no folder", "not a database"])
def absent_url(request, shared_server, tmp_path):
    if request.param == "no server":
        return f"postgres://u:hunter2@127.0.0.1:{free_port()}/d"
    if request.param == "no database":
        return shared_server.url("not_there")
    if request.param == "no folder":
        return f"sqlite:{tmp_path}/no/such/folder/x.db"
    (tmp_path / "text.db").write_text("this is a text, not a database\n" * 100)
    return f"sqlite:{tmp_path}/text.db"


def test_a_missing_database(programs, receiver, tmp_path, absent_url):
    target = {"no/such": "no/such/folder", "text.db": "text.db", "not_there": "not_there"}
    word = next((word for mark, word in target.items() if mark in absent_url), "127.0.0.1")
    for command in (("migrate",), ("lease", "claim", "--worker", "w"),
                    ("lease", "enqueue", "--space", "s", "--payload", "p")):
        line = refused(programs.run(*command, "--database", absent_url), word, status=1)
        assert "hunter2" not in line
    config = write_config(tmp_path, None, receiver, database={"url": absent_url})
    line = refused(programs.run("worker", "--lane", "memories", "--once", "--config", config), word, status=1)
    assert "hunter2" not in line


def test_a_database_whose_encoding_is_not_utf8(programs, receiver, tmp_path, shared_server):
    name = shared_server.create_database(template="template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
    config = write_config(tmp_path, None, receiver, database={"url": shared_server.url(name), "auto_migrate": True})
    for command in (("serve",), ("worker", "--lane", "memories", "--loop"), ("migrate",)):
        refused(programs.run(*command, "--config", config), name, "LATIN1", "--encoding=UTF8", status=1)
    done = programs.run("doctor", "--config", config)
    assert done.status == 1 and "LATIN1" in done.stdout
    shared_server.drop_database(name)


def test_doctor_says_what_is_wrong_and_what_to_do(programs, receiver, tmp_path, store):
    config = write_config(tmp_path, store, receiver)
    programs.run("doctor", "--config", config).ok()
    broken = write_config(tmp_path, None, receiver, name="broken.yaml",
                          database={"url": f"postgres://u@127.0.0.1:{free_port()}/d"})
    done = programs.run("doctor", "--config", broken)
    assert done.status == 1
    assert "database" in done.stdout


def test_doctor_finds_a_sink_that_cannot_be_reached(programs, receiver, tmp_path, store):
    config = write_config(tmp_path, store, receiver)
    receiver.close()
    done = programs.run("doctor", "--config", config)
    assert done.status == 1
    assert "memories" in done.stdout


def test_a_port_in_use(programs, receiver, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = write_config(tmp_path, SqliteStore(tmp_path / "x.db"), receiver, server={"port": port})
        done = programs.run("serve", "--config", config)
    assert done.status in (1, 2)
    assert str(port) in done.stderr
