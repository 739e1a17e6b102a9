"""Both databases behind one interface, for tests that must pass on both."""

import hashlib
import json
import sqlite3

import psycopg

SPACE = "notes"


class PostgresStore:
    kind = "postgres"

    def __init__(self, server, database):
        self.server = server
        self.database = database
        self.url = server.url(database)

    def query(self, sql, *parameters):
        return self.server.query(self.database, sql.replace("?", "%s"), *parameters)

    def insert_many(self, rows):
        with psycopg.connect(self.url) as connection, connection.cursor() as cursor:
            with cursor.copy("COPY outbox_memory (target_space, payload_md, payload_sha) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)

    def seconds_from_now(self, column, outbox_id):
        """How far `column` of a row is ahead of the database's clock."""
        return float(self.query(f"SELECT extract(epoch FROM {column} - clock_timestamp()) AS s FROM outbox_memory"
                                " WHERE outbox_id = ?", outbox_id)[0]["s"])

    def make_due(self):
        self.query("UPDATE outbox_memory SET next_attempt_at = now() WHERE status = 'pending'")

    def writable(self):
        """Whether no process blocks every other writer: always true here."""
        return True


class SqliteStore:
    kind = "sqlite"

    def __init__(self, path):
        self.path = path
        self.url = f"sqlite:{path}"

    def _connect(self):
        connection = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        connection.row_factory = sqlite3.Row
        return connection

    def query(self, sql, *parameters):
        connection = self._connect()
        try:
            return [dict(row) for row in connection.execute(sql, parameters).fetchall()]
        finally:
            connection.close()

    def insert_many(self, rows):
        connection = self._connect()
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT INTO outbox_memory (target_space, payload_md, payload_sha) VALUES (?, ?, ?)", rows)
            connection.execute("COMMIT")
        finally:
            connection.close()

    def seconds_from_now(self, column, outbox_id):
        return float(self.query(f"SELECT (julianday({column}) - julianday('now')) * 86400 AS s FROM outbox_memory"
                                " WHERE outbox_id = ?", outbox_id)[0]["s"])

    def make_due(self):
        self.query("UPDATE outbox_memory SET next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
                   " WHERE status = 'pending'")

    def writable(self):
        """False while a process holds the file's one write lock."""
        connection = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
            return True
        except sqlite3.OperationalError:
            return False
        finally:
            connection.close()


def fill(store, count, space=SPACE, start=1):
    """Adds `count` rows with different payloads; returns their ids."""
    texts = [f"memory {number}" for number in range(start, start + count)]
    before = store.query("SELECT coalesce(max(outbox_id), 0) AS id FROM outbox_memory")[0]["id"]
    store.insert_many([(space, text, hashlib.sha256(text.encode()).hexdigest()) for text in texts])
    return [row["outbox_id"] for row in
            store.query("SELECT outbox_id FROM outbox_memory WHERE outbox_id > ? ORDER BY 1", before)]


def row(store, outbox_id):
    return store.query("SELECT * FROM outbox_memory WHERE outbox_id = ?", outbox_id)[0]


def by_status(store):
    rows = store.query("SELECT status, count(*) AS n FROM outbox_memory GROUP BY status")
    return {found["status"]: found["n"] for found in rows}


def audit(store, reason=None):
    """Audit rows, oldest first."""
    rows = store.query("SELECT * FROM outbox_audit ORDER BY 1")
    return [found for found in rows if reason is None or found["reason"] == reason]


def key(outbox_id):
    """The idempotency key a memory lane sends for a row."""
    return f"memory-{outbox_id}"


def write_config(folder, store, receiver=None, *, lane=None, name="deliverd.yaml", **sections):
    """Writes a configuration with one memory lane, `memories`, to `receiver`. (JSON is YAML.) Returns its path."""
    document = {"database": {"url": store.url}} if store else {}
    if receiver is not None:
        settings = {"outbox": "memory", "sink": {"type": "http", "url": receiver.url, "timeout_ms": 20000}}
        document["lanes"] = {"memories": settings | (lane or {})}
    for section, values in sections.items():
        document[section] = document.get(section, {}) | values
    return write_whole(folder / name, json.dumps(document, indent=2))


def write_whole(path, text):
    """A process that is just reading the file gets all of the old text or all of the new one."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(text, encoding="utf-8")
    return temporary.replace(path)
