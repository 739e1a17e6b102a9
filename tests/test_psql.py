"""The lease protocol used from psql alone: no deliverd process runs in these tests."""

import queue
import re
import subprocess
import threading

import psycopg
import pytest
from harness.process import ROOT
from harness.stores import by_status, fill, row
from harness.waiting import wait_for

ANSWER_DEADLINE_SECONDS = 120


class Psql:
    """An interactive psql session; say() returns the lines that a statement printed."""

    def __init__(self, url):
        self._process = subprocess.Popen(["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", url],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                         text=True, bufsize=1)
        self._lines = queue.Queue()
        self._marks = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))

    def say(self, statement):
        self._marks += 1
        mark = f"-- answer {self._marks} ends"
        self._process.stdin.write(f"{statement}\n\\echo '{mark}'\n")
        self._process.stdin.flush()
        lines = []
        while (line := self._lines.get(timeout=ANSWER_DEADLINE_SECONDS)) != mark:
            lines.append(line)
        return lines

    def close(self):
        self._process.stdin.close()
        self._process.wait(ANSWER_DEADLINE_SECONDS)
        self._reader.join(ANSWER_DEADLINE_SECONDS)
        self._process.stdout.close()


@pytest.fixture
def sessions(postgres):
    both = [Psql(postgres.url), Psql(postgres.url)]
    yield both
    for session in both:
        session.close()


def claim(worker, limit):
    return f"SELECT outbox_id FROM deliverd.claim_outbox('{worker}', {limit}, 60);"


def test_rows_claimed_in_an_open_transaction_are_skipped(postgres, sessions):
    ids = fill(postgres, 10)
    first, second = sessions
    first.say("BEGIN;")
    mine = list(map(int, first.say(claim("a", 4))))
    yours = list(map(int, second.say(claim("b", 10))))
    first.say("COMMIT;")
    assert mine == ids[:4]
    assert yours == ids[4:]
    assert first.say(claim("c", 10)) == []


def test_a_rolled_back_claim_leaves_the_rows_to_others(postgres, sessions):
    ids = fill(postgres, 3)
    first, second = sessions
    first.say("BEGIN;")
    assert len(first.say(claim("a", 3))) == 3
    first.say("ROLLBACK;")
    assert list(map(int, second.say(claim("b", 3)))) == ids


def test_two_sessions_empty_a_table_together_and_no_row_goes_to_both(postgres):
    ids = fill(postgres, 2000)
    got = {}

    def loop(worker):
        # The lock is the starting gate. Each session makes enough claims to take everything, so both must share.
        script = "\\o /dev/null\nSELECT pg_advisory_lock_shared(1);\n\\o\n" + claim(worker, 10) * 200
        done = subprocess.run(["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", postgres.url], input=script,
                              capture_output=True, text=True, timeout=240, check=True)
        got[worker] = [int(line) for line in done.stdout.split()]

    threads = [threading.Thread(target=loop, args=(worker,)) for worker in ("a", "b")]
    with psycopg.connect(postgres.url) as gate:
        gate.execute("SELECT pg_advisory_lock(1)")
        for thread in threads:
            thread.start()
        wait_for(lambda: postgres.query("SELECT count(*) AS n FROM pg_locks WHERE locktype = 'advisory'"
                                        " AND NOT granted")[0]["n"] == 2, 20, "both sessions at the gate")
    for thread in threads:
        thread.join(90)
    assert got["a"] and got["b"], "only one of the two got anything"
    assert sorted(got["a"] + got["b"]) == ids
    for worker, mine in got.items():
        acked = postgres.query("SELECT count(*) FILTER (WHERE deliverd.ack_sent(id, ?)) AS n FROM unnest(?) AS id",
                               worker, mine)
        assert acked[0]["n"] == len(mine)
    assert by_status(postgres) == {"sent": 2000}


def test_only_the_owner_settles(postgres, sessions):
    ids = fill(postgres, 4)
    owner, other = sessions
    assert len(owner.say(claim("owner", 4))) == 4
    before = [row(postgres, outbox_id) for outbox_id in ids]
    for attempt in (f"deliverd.ack_sent({ids[0]}, 'other', 'm')",
                    f"deliverd.fail_retry({ids[1]}, 'other', 'no', now())",
                    f"deliverd.mark_dead_by_worker({ids[2]}, 'other', 'no')",
                    f"deliverd.renew_lease({ids[3]}, 'other')"):
        assert other.say(f"SELECT {attempt};") == ["f"]
    assert [row(postgres, outbox_id) for outbox_id in ids] == before
    assert owner.say(f"SELECT deliverd.ack_sent({ids[0]}, 'owner', 'm-1');") == ["t"]
    assert owner.say(f"SELECT deliverd.fail_retry({ids[1]}, 'owner', 'later', now() + interval '1 hour');") == ["t"]
    assert owner.say(f"SELECT deliverd.mark_dead_by_worker({ids[2]}, 'owner', 'never');") == ["t"]
    assert owner.say(f"SELECT deliverd.renew_lease_batch(ARRAY[{ids[0]}, {ids[3]}], 'owner');") == ["1"]
    sent, later, dead, held = (row(postgres, outbox_id) for outbox_id in ids)
    assert (sent["status"], sent["last_error"], sent["locked_by"]) == ("sent", "memory_id=m-1", None)
    assert (later["status"], later["retry_count"], later["last_error"]) == ("pending", 1, "later")
    assert (dead["status"], dead["retry_count"], dead["last_error"]) == ("dead", 0, "never")
    assert held["locked_by"] == "owner" and held["locked_at"] >= before[3]["locked_at"]
    assert owner.say(f"SELECT * FROM deliverd.check_dedup('{sent['target_space']}', '{sent['payload_sha']}');") \
        == [f"{ids[0]}|m-1"]


def test_an_expired_lease_goes_to_the_next_worker(postgres, sessions):
    ids = fill(postgres, 2)
    first, second = sessions
    first.say(claim("a", 2))

    def retaken():
        return second.say("SELECT outbox_id FROM deliverd.claim_outbox('b', 1, 0.2);")

    assert wait_for(retaken, 10, "the lease of 0.2 s to run out") == [str(ids[0])]
    assert first.say(f"SELECT deliverd.ack_sent({ids[0]}, 'a');") == ["f"]
    # Nobody took over the second row and its work was done, so it still settles.
    assert first.say(f"SELECT deliverd.ack_sent({ids[1]}, 'a');") == ["t"]


@pytest.mark.parametrize("call", [
    "deliverd.claim_outbox('', 1, 60)", "deliverd.claim_outbox(NULL, 1, 60)", "deliverd.claim_outbox('w', 0, 60)",
    "deliverd.claim_outbox('w', -1, 60)", "deliverd.claim_outbox('w', 1, -1)", "deliverd.ack_sent(1, '')",
    "deliverd.fail_retry(1, '', 'e', now())", "deliverd.mark_dead_by_worker(1, '', 'e')",
    "deliverd.renew_lease(1, '')", "deliverd.renew_lease_batch(ARRAY[1], '')",
    "deliverd.enqueue_memory('s', repeat('x', 10 * 1024 * 1024), NULL)",
    r"deliverd.enqueue_memory('s', E'a\x00b', NULL)",
    r"deliverd.enqueue_memory('s', E'a\xff', NULL)",
])
def test_bad_arguments_are_errors_and_change_nothing(postgres, call):
    fill(postgres, 3)
    before = postgres.query("SELECT * FROM outbox_memory ORDER BY outbox_id")
    done = subprocess.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", postgres.url, "-c", f"SELECT {call}"],
                          capture_output=True, text=True, timeout=240)
    assert done.returncode != 0
    assert done.stderr.startswith("ERROR:"), done.stderr
    assert postgres.query("SELECT * FROM outbox_memory ORDER BY outbox_id") == before


def test_the_examples_of_the_documentation_run(postgres):
    """The ```sql blocks of docs/lease-protocol.md in one session: the grants, then the rest as the granted role."""
    text = (ROOT / "docs" / "lease-protocol.md").read_text(encoding="utf-8")
    role = f"worker_of_{postgres.database}"
    grants, *examples = re.findall(r"^```sql\n(.*?)^```", text.replace(" to worker;", f" to {role};"),
                                   re.MULTILINE | re.DOTALL)
    assert examples, "docs/lease-protocol.md has no sql examples"
    postgres.query(f"CREATE ROLE {role}")
    try:
        done = subprocess.run(["psql", "-X", "-v", "ON_ERROR_STOP=1", postgres.url], capture_output=True, text=True,
                              input="\n".join([grants, f"set role {role};", *examples]), timeout=240)
        assert done.returncode == 0, done.stderr
        assert "ERROR" not in done.stderr, done.stderr
        assert postgres.query("SELECT status FROM outbox_memory ORDER BY 1") == [{"status": "pending"}, {"status": "sent"}]
    finally:
        postgres.query(f"DROP OWNED BY {role}")
        postgres.query(f"DROP ROLE {role}")
