"""Large events: how much memory a relay takes for its first read, with default settings."""

import re
from pathlib import Path

from harness.event_lanes import events_config, start_relay, wait_for_all_published

EVENTS = 150
EVENT_BYTES = 2 * 1024 * 1024
# A read ends with the row that reaches 32 MiB. A read that is limited by rows alone took 637 MB, and one that kept the
# bodies of delivered events until they were recorded took 328 MiB of SQLite, and more of a longer backlog.
LIMIT_BYTES = 200 * 1024 * 1024
DEADLINE_SECONDS = 180
PAYLOADS = {"postgres": "jsonb_build_object('text', repeat('x', ?))",
            "sqlite": "json_object('text', hex(zeroblob(? / 2)))"}


def peak_bytes(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


def test_a_backlog_of_large_events_does_not_fill_the_memory(store, programs, tmp_path):
    for number in range(EVENTS):
        store.query(f"INSERT INTO outbox (aggregate_id, event_type, payload) VALUES (?, 'Large', {PAYLOADS[store.kind]})"
                    " RETURNING id", f"a-{number}", EVENT_BYTES)
    relay = start_relay(programs, events_config(tmp_path, store, {"type": "none"}))
    wait_for_all_published(store, DEADLINE_SECONDS)
    assert peak_bytes(relay) < LIMIT_BYTES
