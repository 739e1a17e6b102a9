"""Dead letters as rows, on either store, and the documented failure headers."""

import re
import uuid

from harness.documents import text_of

PAGE = "docs/dead-letters.md"


def table(store):
    return "dlq.dlq_messages" if store.kind == "postgres" else "dlq_messages"


def add_letter(store, original_topic="orders.events.v1", error_message="processing failed", payload='{"order_id": "123"}',
               **columns):
    """Adds a row with the basic columns and those that a test gives. Returns its id."""
    row = {"id": str(uuid.uuid4()), "original_topic": original_topic, "error_message": error_message,
           "payload": payload} | columns
    store.query(f"INSERT INTO {table(store)} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))}) RETURNING id",
                *row.values())
    return row["id"]


def letter(store, letter_id):
    return store.query(f"SELECT * FROM {table(store)} WHERE id = ?", letter_id)[0]


def told_headers():
    """(family, meaning) → the header names, each in backquotes and with its form, in the table's order."""
    rows = re.findall(r"^\| `([\w-]+)` \| ([a-z ]+) \| (`.+) \|$", text_of(PAGE), re.MULTILINE)
    return {(family, meaning): re.findall(r"`[^`]+`(?: \([^)]+\))?", names) for family, meaning, names in rows}
