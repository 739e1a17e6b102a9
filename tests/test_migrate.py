"""`migrate`: fresh, repeated, dry run, two at once, and what it refuses."""

import threading

import pytest
from harness.stores import SqliteStore, fill, write_config


@pytest.fixture(params=["postgres", "sqlite"])
def empty(request, tmp_path):
    """A database without a schema."""
    if request.param == "sqlite":
        return SqliteStore(tmp_path / "empty.db")
    return request.getfixturevalue("empty_database")


def objects(store):
    if store.kind == "sqlite":
        return store.query("SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2")
    return store.query(
        "SELECT n.nspname, c.relname, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname IN ('public', 'deliverd', 'dlq') UNION ALL"
        " SELECT n.nspname, p.proname, 'function' FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
        " WHERE n.nspname = 'deliverd' ORDER BY 1, 2, 3")


def migrations_table(store):
    return "deliverd.migrations" if store.kind == "postgres" else "deliverd_migrations"


def test_fresh_then_again(programs, empty):
    done = programs.run("migrate", "--database", empty.url).ok()
    assert "lease_protocol" in done.stdout, "it says what it did"
    assert fill(empty, 1) == [1]
    before = objects(empty)
    again = programs.run("migrate", "--database", empty.url).ok()
    assert "lease_protocol" not in again.stdout, "nothing to do, and it says nothing was done"
    assert objects(empty) == before
    assert empty.query("SELECT count(*) AS n FROM outbox_memory") == [{"n": 1}]


def test_dry_run_prints_the_sql_and_changes_nothing(programs, empty):
    before = objects(empty)
    done = programs.run("migrate", "--dry-run", "--database", empty.url).ok()
    assert "create table" in done.stdout.lower() and "outbox_memory" in done.stdout
    assert objects(empty) == before


def test_what_the_dry_run_prints_is_sql_that_runs(programs, empty_database):
    done = programs.run("migrate", "--dry-run", "--database", empty_database.url).ok()
    empty_database.query(done.stdout)
    assert empty_database.query("SELECT deliverd.enqueue_memory('s', 'p', NULL) AS id") == [{"id": 1}]


def test_two_at_once_both_succeed(programs, empty):
    results = [None] * 4

    def migrate(index):
        results[index] = programs.run("migrate", "--database", empty.url)

    threads = [threading.Thread(target=migrate, args=(index,)) for index in range(len(results))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for result in results:
        result.ok()
    assert sum("lease_protocol" in result.stdout for result in results) == 1, "exactly one of them did it"
    assert fill(empty, 1) == [1]


def test_a_changed_old_migration_is_refused(programs, store):
    store.query(f"UPDATE {migrations_table(store)} SET checksum = 'another' WHERE version = 1")
    before = objects(store)
    line = programs.run("migrate", "--database", store.url).error_line(1)
    assert "1" in line and "lease_protocol" in line
    assert objects(store) == before


def test_a_newer_schema_is_refused_by_every_command(programs, store, receiver, tmp_path):
    ids = fill(store, 2)
    table = migrations_table(store)
    columns = [name for name in store.query(f"SELECT * FROM {table} WHERE version = 1")[0] if name != "version"]
    store.query(f"INSERT INTO {table} (version, {', '.join(columns)})"
                f" SELECT 9999, {', '.join(columns)} FROM {table} WHERE version = 1")
    config = write_config(tmp_path, store, receiver)
    for command in (["migrate", "--database", store.url],
                    ["worker", "--lane", "memories", "--once", "--config", str(config)],
                    ["serve", "--config", str(config)],
                    ["lease", "claim", "--worker", "w", "--database", store.url]):
        line = programs.run(*command).error_line(1)
        assert "9999" in line and "upgrade deliverd" in line, (command, line)
    assert receiver.count() == 0
    assert store.query("SELECT count(*) AS n FROM outbox_memory WHERE locked_by IS NULL AND status = 'pending'") \
        == [{"n": len(ids)}]


def test_postgres_without_a_schema_names_the_command(programs, empty_database, receiver, tmp_path):
    config = write_config(tmp_path, empty_database, receiver)
    for command in (["worker", "--lane", "memories", "--once"], ["serve"]):
        assert "deliverd migrate" in programs.run(*command, "--config", config).error_line(1)


def test_auto_migrate_migrates_if_enabled(programs, empty_database, receiver, tmp_path):
    config = write_config(tmp_path, empty_database, receiver, database={"auto_migrate": True})
    programs.run("worker", "--lane", "memories", "--once", "--config", config).ok()
    assert fill(empty_database, 1) == [1]


def test_sqlite_is_migrated_by_the_worker_itself(programs, receiver, tmp_path):
    (tmp_path / "new.db").touch()  # one that is not there is taken for a mistyped path
    store = SqliteStore(tmp_path / "new.db")
    config = write_config(tmp_path, store, receiver)
    programs.run("worker", "--lane", "memories", "--once", "--config", config).ok()
    assert fill(store, 1) == [1]


@pytest.mark.parametrize("schema", ["messages", 'odd "name"'])
def test_another_schema(programs, empty_database, receiver, tmp_path, schema):
    quoted = '"' + schema.replace('"', '""') + '"'
    empty_database.query(f"CREATE SCHEMA {quoted}")
    config = write_config(tmp_path, empty_database, receiver, database={"schema": schema})
    programs.run("migrate", "--config", config).ok()
    assert empty_database.query("SELECT to_regclass('public.outbox_memory')::text AS t") == [{"t": None}]
    empty_database.query("SELECT deliverd.enqueue_memory('s', 'hello', NULL)")
    programs.run("worker", "--lane", "memories", "--once", "--config", config).ok()
    assert empty_database.query(f"SELECT status FROM {quoted}.outbox_memory") == [{"status": "sent"}]
    assert empty_database.query(f"SELECT reason FROM {quoted}.outbox_audit") == [{"reason": "outbox_flush_success"}]
