"""Exhausted spool entries become dead letters and can be put back, with `deliverd serve` on both databases."""

import base64
import concurrent.futures
import json
import signal
import threading

import pytest
from harness.dead_letters import table
from harness.ports import free_port
from harness.receiver import Answer
from harness.service import Service
from harness.spool import SpoolFile
from harness.stores import write_config
from harness.waiting import wait_for
from harness.web import get

DEADLINE_SECONDS = 30
QUICK_LEASE = {"replay_timeout_seconds": 1, "retry_lease_seconds": 3.1}


class SpoolHost:
    """`serve` with one spool, and access to its dead letters."""

    def __init__(self, programs, folder, store, spool, url=None, failpoints=None, until_ready=True, **settings):
        port = free_port()
        self.config = write_config(
            folder, None, database={"url": url or store.url}, server={"port": port}, dead_letters=QUICK_LEASE,
            spools={"hooks": {"path": str(spool.path), "allow_private": True, "retry_seconds": 0.1,
                              "cleanup_seconds": 3600} | settings})
        self.store, self.spool = store, spool
        self.service = Service(programs, self.config, port, until_ready, failpoints=failpoints)
        self.process = self.service.process

    def ask(self, method, path):
        return get(f"{self.service.base}/api/v1/dlq{path}", method=method)

    def letters(self, **query):
        words = "&".join(f"{name}={value}" for name, value in ({"page_size": 100} | query).items())
        return self.ask("GET", f"/hooks?{words}").json().get("messages", [])  # none while the database is away

    def wait_for_letters(self, count, **query):
        wait_for(lambda: len(self.letters(**query)) == count, DEADLINE_SECONDS,
                 lambda: f"{count} letters: {self.letters(**query)}\n{self.process.stderr[-2000:]}")
        return self.letters(**query)

    def wait_for_states(self, states):
        wait_for(lambda: self.spool.states() == states, DEADLINE_SECONDS,
                 lambda: f"{states}, not {self.spool.states()}\n{self.process.stderr[-2000:]}")

    def wait_for_marks(self, count):
        """Waits until the file names the letters of that many entries."""
        wait_for(lambda: sum("deadLetter" in entry for entry in self.spool.entries) == count, DEADLINE_SECONDS,
                 lambda: self.spool.entries)

    def retry(self, letter_id):
        page = self.ask("POST", f"/messages/{letter_id}/retry")
        reported = page.json()
        return page.status, reported["message"] if page.status == 200 else reported["error"]["message"]

    def stop(self):
        self.process.terminate()
        assert self.process.wait() == 0, self.process.stderr


@pytest.fixture
def spool(programs, receiver, tmp_path):
    receiver.answer_with(lambda call: Answer(503, {}))
    return SpoolFile(programs, receiver, tmp_path / "hooks.jsonl")


@pytest.fixture
def serve(programs, tmp_path, store, spool):
    return lambda **how: SpoolHost(programs, tmp_path, store, spool, **how)


def count(store):
    return store.query(f"SELECT count(*) AS n FROM {table(store)}")[0]["n"]


def is_delivered(receiver):
    receiver.answer_with(lambda call: Answer(200, {}))


def test_exhausted_entries_are_dead_letters(serve, spool, store, receiver, programs):
    job = spool.add('{"id": 7, "price": 1.50}', "--attempts-made", "3", "--name", "hooks")
    spool.make_due()
    there_before = spool.exhausted("there-before", [1, 2], error={"message": "a\u0000b", "code": None})
    spool.append(there_before, spool.exhausted("resolved", state="resolved"), spool.exhausted("p", state="pending"))
    host = serve()
    letters = {letter["payload"] and json.dumps(letter["payload"]): letter for letter in host.wait_for_letters(2)}
    sent, old = letters['{"id": 7, "price": 1.5}'], letters["[1, 2]"]
    assert (sent["status"], sent["source"], sent["original_topic"]) == ("PENDING", "spool:hooks", "hooks")
    assert (sent["error_message"], sent["error_class"]) == ("HTTP 503", "503")
    assert (old["error_message"], old["error_class"]) == ("a\ufffdb", None)
    host.wait_for_marks(2)
    by_id = {entry["jobId"]: entry for entry in spool.entries}
    assert by_id[job]["deadLetter"] == sent["id"] and by_id["there-before"]["deadLetter"] == old["id"]
    assert list(by_id["there-before"]) == [*there_before, "deadLetter"], "everything else stays where it was"
    assert "deadLetter" not in by_id["resolved"] and "deadLetter" not in by_id["p"]
    raw = host.ask("GET", f"/messages/{old['id']}/raw").json()
    assert json.loads(base64.b64decode(raw["value_base64"])) == there_before
    assert (base64.b64decode(raw["key_base64"]).decode(), raw["topic"]) == ("there-before", None)
    (counts,) = host.ask("GET", "").json()["topics"]
    assert (counts["topic"], counts["source"], counts["pending"]) == ("hooks", "spool:hooks", 2)
    wait_for(lambda: host.service.metrics().get('spool_dead_letters_total{spool="hooks"}') == 2, DEADLINE_SECONDS,
             "both to be counted")
    host.stop()

    again = serve()
    fresh = spool.exhausted("fresh")
    spool.append(fresh)
    again.wait_for_letters(3)
    assert count(store) == 3, "the earlier letters were not stored again"
    again.stop()
    assert receiver.count() == 1
    assert json.loads(programs.run("dlq", "stats", "--json", "--database", store.url).ok().stdout)[0]["pending"] == 3


def test_a_deleted_letter_stays_deleted(serve, spool, store):
    spool.append(spool.exhausted("a"))
    host = serve()
    (letter,) = host.wait_for_letters(1)
    host.wait_for_marks(1)
    assert host.ask("DELETE", f"/messages/{letter['id']}").status == 200
    spool.append(spool.exhausted("b"))
    (other,) = host.wait_for_letters(1)
    assert other["payload"] == {"job": "b"}
    assert count(store) == 1


def test_a_retry_puts_the_entry_back_and_it_is_sent(serve, spool, store, receiver):
    spool.append(spool.exhausted("a"), spool.exhausted("b"))
    host = serve()
    letters = {letter["payload"]["job"]: letter["id"] for letter in host.wait_for_letters(2)}
    host.wait_for_marks(2)
    is_delivered(receiver)
    assert host.retry(letters["a"])[0] == 200
    host.wait_for_states({"a": "resolved", "b": "exhausted"})
    (call,) = receiver.calls
    assert call.body == {"job": "a", "idempotencyKey": "a"}
    (letter,) = host.letters(status="RESOLVED")
    assert (letter["id"], letter["retry_count"]) == (letters["a"], 1)
    status, message = host.retry(letters["a"])
    assert (status, "status=RESOLVED" in message) == (409, True)
    trail = host.ask("GET", f"/messages/{letters['a']}/audit").json()["audit"]
    assert [line["action"] for line in trail] == ["retry_begun", "published"], "and a person can see it"
    assert trail[-1]["detail"] == "back in its spool hooks, due at once"


def test_an_entry_that_is_exhausted_again_has_another_letter(serve, spool, receiver):
    spool.append(spool.exhausted("a", maxAttempts=1, attemptsMade=1))
    host = serve()
    (first,) = host.wait_for_letters(1)
    host.wait_for_marks(1)
    assert host.retry(first["id"])[0] == 200
    (second,) = host.wait_for_letters(1, status="PENDING")
    assert second["id"] != first["id"]
    host.wait_for_marks(1)
    assert receiver.count() == 1
    is_delivered(receiver)
    assert host.retry(first["id"])[0] == 409
    assert host.retry(second["id"])[0] == 200
    host.wait_for_states({"a": "resolved"})
    assert {letter["status"] for letter in host.wait_for_letters(2)} == {"RESOLVED"}
    assert receiver.times() == {"a": 2}


def test_retry_all_and_the_command_line(serve, spool, store, receiver, programs, tmp_path):
    jobs = [f"job-{number}" for number in range(250)]
    spool.append(*(spool.exhausted(job) for job in jobs))
    host = serve()
    wait_for(lambda: count(store) == 250, DEADLINE_SECONDS, lambda: host.process.stderr[-2000:])
    host.wait_for_marks(250)
    is_delivered(receiver)
    host.stop()
    letter = store.query(f"SELECT id FROM {table(store)} ORDER BY id LIMIT 1")[0]["id"]
    done = json.loads(programs.run("dlq", "retry", letter, "--config", host.config, "--json").ok().stdout)
    assert (done["status"], done["message"]) == ("RESOLVED", "back in its spool hooks, due at once")
    assert sorted(spool.states().values()) == ["exhausted"] * 249 + ["pending"]
    (tmp_path / "elsewhere").mkdir()
    without = write_config(tmp_path / "elsewhere", None, database={"url": store.url})
    elsewhere = programs.run("dlq", "retry-all", "hooks", "--config", without, "--json").ok()
    assert json.loads(elsewhere.stdout)["retried"] == 0, "this process has no spool hooks"
    reported = json.loads(programs.run("dlq", "retry-all", "hooks", "--config", host.config, "--json").ok().stdout)
    assert (reported["retried"], reported["failed"], reported["in_doubt"]) == (249, 0, 0)
    assert set(spool.states().values()) == {"pending"}
    host = serve()
    host.wait_for_states(dict.fromkeys(jobs, "resolved"))
    assert receiver.times() == dict.fromkeys(jobs, 1)
    assert store.query(f"SELECT DISTINCT status FROM {table(store)}") == [{"status": "RESOLVED"}]


def test_a_retry_the_entry_forbids_is_a_conflict_and_changes_nothing(serve, spool, store, programs, tmp_path):
    spool.append(*(spool.exhausted(job) for job in ("resolved", "pending", "elsewhere")))
    host = serve()
    letters = {letter["payload"]["job"]: letter["id"] for letter in host.wait_for_letters(3)}
    host.wait_for_marks(3)
    host.stop()
    spool.run("resolve", "resolved").ok()
    kept = [entry | ({"state": "pending"} if entry["jobId"] == "pending" else {}) for entry in spool.entries
            if entry["jobId"] != "elsewhere"]
    spool.path.write_text("".join(json.dumps(entry) + "\n" for entry in kept))
    headers = json.dumps([{"name": "spool-file", "value_base64": base64.b64encode(b"other:/hooks.jsonl").decode()}])
    store.query(f"UPDATE {table(store)} SET record_headers = ? WHERE id = ? RETURNING id", headers, letters["elsewhere"])
    before = spool.path.read_text()
    for job, reason in (("resolved", "its entry is resolved"), ("pending", "its entry is pending"),
                        ("elsewhere", "its entry is in other:/hooks.jsonl, not in the file of this process")):
        refused = programs.run("dlq", "retry", letters[job], "--config", host.config).error_line(1)
        assert "not put back into its spool" in refused and reason in refused
    (tmp_path / "elsewhere").mkdir()
    without = write_config(tmp_path / "elsewhere", None, database={"url": store.url})
    not_here = programs.run("dlq", "retry", letters["pending"], "--config", without).error_line(1)
    assert "its spool 'hooks' is not below `spools`" in not_here
    assert spool.path.read_text() == before
    rows = store.query(f"SELECT status, retry_count FROM {table(store)}")
    assert rows == [{"status": "PENDING", "retry_count": 0}] * 3


def test_an_entry_that_was_cleaned_up_comes_back_from_its_letter(serve, spool, receiver):
    entry = spool.exhausted("old", mine={"kept": True})
    spool.append(entry)
    host = serve()
    (letter,) = host.wait_for_letters(1)
    host.wait_for_marks(1)
    host.stop()
    spool.path.unlink()
    is_delivered(receiver)
    host = serve()
    assert host.retry(letter["id"])[0] == 200
    host.wait_for_states({"old": "resolved"})
    assert spool.entries[0]["mine"] == {"kept": True}
    assert receiver.times() == {"old": 1}


@pytest.mark.parametrize("passage", [1, 2])
def test_killed_between_the_letter_and_its_mark(serve, spool, store, passage):
    jobs = [f"job-{number}" for number in range(700)]  # more than one batch
    spool.append(*(spool.exhausted(job) for job in jobs))
    before = spool.path.read_text()
    victim = serve(failpoints=f"spool.after_store=crash@{passage}", until_ready=False)
    assert victim.process.wait() == -signal.SIGKILL
    assert count(store) == (500, 700)[passage - 1], "stored"
    assert spool.path.read_text() == before, "the file does not name the letters yet"
    host = serve()
    host.wait_for_marks(700)
    assert count(store) == 700
    assert {entry["deadLetter"] for entry in spool.entries} \
        == {str(row["id"]) for row in store.query(f"SELECT id FROM {table(store)}")}


def test_a_letter_can_be_retried_before_the_file_names_it(serve, spool, store, receiver, programs):
    spool.append(spool.exhausted("a"))
    victim = serve(failpoints="spool.after_store=crash@1", until_ready=False)
    assert victim.process.wait() == -signal.SIGKILL
    letter = store.query(f"SELECT id FROM {table(store)}")[0]["id"]
    programs.run("dlq", "retry", letter, "--config", victim.config).ok()
    (entry,) = spool.entries
    assert (entry["state"], entry["revivedFrom"], "deadLetter" in entry) == ("pending", str(letter), False)


def test_killed_between_the_entry_and_the_end_of_the_retry(serve, spool, store, receiver, programs):
    spool.append(spool.exhausted("a"))
    victim = serve(failpoints="retry.after_put_back=crash@1", retry_seconds=3600)
    (letter,) = victim.wait_for_letters(1)
    victim.wait_for_marks(1)
    assert victim.ask("POST", f"/messages/{letter['id']}/retry").status == 0, "nobody is there to answer"
    assert victim.process.wait() == -signal.SIGKILL
    assert spool.states() == {"a": "pending"}, "the entry is back"
    assert store.query(f"SELECT status FROM {table(store)}") == [{"status": "RETRYING"}], "the letter does not know"
    is_delivered(receiver)
    host = serve()
    host.wait_for_states({"a": "resolved"})
    answer = wait_for(lambda: (reported := host.retry(letter["id"]))[0] == 200 and reported, DEADLINE_SECONDS,
                      lambda: host.retry(letter["id"]))
    assert answer[0] == 200
    assert [one["status"] for one in host.letters()] == ["RESOLVED"]
    assert host.ask("GET", f"/messages/{letter['id']}/audit").json()["audit"][-1]["detail"] \
        == "it was put back into its spool hooks before"
    host.stop()
    assert receiver.times() == {"a": 1}, "the repeated retry changed nothing"
    assert spool.states() == {"a": "resolved"}


def test_the_spool_continues_while_the_database_is_down(programs, tmp_path, postgres, proxy, receiver):
    spool = SpoolFile(programs, receiver, tmp_path / "hooks.jsonl")
    receiver.answer_with(lambda call: Answer(503 if call.key.startswith("bad") else 200, {}))
    host = SpoolHost(programs, tmp_path, postgres, spool, cleanup_seconds=0.1,
                     url=postgres.url.replace(f":{postgres.server.port}", f":{proxy.port}"))
    proxy.refuse(True)
    proxy.cut()
    due = {"state": "pending", "nextRetry": 1}
    spool.append(spool.exhausted("bad", attemptsMade=4, **due), spool.exhausted("long-ago", nextRetry=1),
                 spool.exhausted("good", attemptsMade=1, **due))
    host.wait_for_states({"bad": "exhausted", "long-ago": "exhausted", "good": "resolved"})
    host.process.wait_for_stderr("exhausted entries are not among the dead letters yet")
    spool.append(spool.exhausted("good-2", attemptsMade=1, **due))
    wait_for(lambda: spool.states().get("good-2") == "resolved", DEADLINE_SECONDS, lambda: spool.states())
    assert "long-ago" in spool.states(), "a cleanup waits for its letter"
    assert host.process.stderr.count("exhausted entries are not among") <= 3, "it is not reported every time"
    proxy.refuse(False)
    assert {letter["payload"]["job"] for letter in host.wait_for_letters(2)} == {"bad", "long-ago"}
    wait_for(lambda: "long-ago" not in spool.states(), DEADLINE_SECONDS, lambda: spool.states())
    host.stop()


def test_a_stop_does_not_wait_for_a_receiver_that_does_not_answer(programs, tmp_path, sqlite, receiver):
    spool = SpoolFile(programs, receiver, tmp_path / "hooks.jsonl")
    never = threading.Event()
    receiver.answer_with(lambda call: Answer(hold=never))
    spool.append(spool.exhausted("a", attemptsMade=4, state="pending", nextRetry=1))
    before = spool.path.read_text()
    host = SpoolHost(programs, tmp_path, sqlite, spool, timeout_seconds=600)
    wait_for(lambda: receiver.count() == 1, DEADLINE_SECONDS, lambda: host.process.stderr)
    host.process.terminate()
    wait_for(lambda: host.service.get("/readyz").status in (0, 503), DEADLINE_SECONDS, "it to be stopping")
    host.process.terminate()  # the second one: at once
    assert host.process.wait() == 0, host.process.stderr
    never.set()
    assert spool.path.read_text() == before, "an abandoned attempt does not count"


def test_a_retry_of_a_letter_need_not_wait_for_a_long_run(programs, tmp_path, sqlite, receiver):
    spool = SpoolFile(programs, receiver, tmp_path / "hooks.jsonl")
    receiver.answer_with(lambda call: Answer(200, {}))
    spool.append(spool.exhausted("given-up"))
    host = SpoolHost(programs, tmp_path, sqlite, spool)
    (letter,) = host.wait_for_letters(1)
    host.wait_for_marks(1)
    begun, through = threading.Event(), threading.Event()

    def slowly(call):
        if call.key == "due-0":
            return Answer(200, {}, hold=begun)
        through.wait(1)  # forty of them are longer than a retry waits
        return Answer(200, {})

    receiver.answer_with(slowly)
    spool.append(*(spool.exhausted(f"due-{number}", attemptsMade=1, state="pending", nextRetry=number + 1)
                   for number in range(40)))
    wait_for(lambda: receiver.count() == 1, DEADLINE_SECONDS, lambda: host.process.stderr)
    with concurrent.futures.ThreadPoolExecutor() as others:
        retry = others.submit(host.retry, letter["id"])
        wait_for(lambda: host.letters(status="RETRYING"), DEADLINE_SECONDS, lambda: host.letters())
        begun.set()
        assert retry.result(DEADLINE_SECONDS)[0] == 200, retry.result()
        through.set()
    host.wait_for_states({f"due-{number}": "resolved" for number in range(40)} | {"given-up": "resolved"})
    assert set(receiver.times().values()) == {1}
