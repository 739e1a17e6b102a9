"""Dead rows of lanes become dead letters with provenance, and a retry puts them back into their lane in order."""

import json

import pytest
from harness.dead_letters import table
from harness.dlq_service import DLQ, error
from harness.event_lanes import quick, row, wait_for_state, write
from harness.orders import QUICK_LANE, Client, an_order
from harness.ports import free_port
from harness.receiver import Answer, Receiver
from harness.service import Service
from harness.stores import fill, write_config
from harness.waiting import wait_for
from harness.web import get

DEADLINE_SECONDS = 40
REFUSED = Answer(400, {"why": "<no> 'such' thing"})


class Lanes(Service):
    """`serve` with a lane of each kind, sending to receivers that refuse chosen messages."""

    def __init__(self, programs, folder, store, receivers, **events):
        lanes = {"orders": {"outbox": "orders", "sink": {"type": "http", "url": receivers["orders"].url}} | QUICK_LANE,
                 "sales": {"outbox": "events", "sink": {"type": "http", "url": receivers["sales"].url}} | quick(**events),
                 "notes": {"outbox": "memory", "sink": {"type": "http", "url": receivers["notes"].url}}}
        self.port = free_port()
        self.config = write_config(folder, store, server={"port": self.port}, lanes=lanes)
        super().__init__(programs, self.config, self.port)
        self._store = store

    def letter_of(self, lane):
        """The only letter of a lane, once it exists."""
        page = wait_for(lambda: (found := self.get(f"{DLQ}/{lane}").json())["messages"] and found, DEADLINE_SECONDS,
                        lambda: f"a letter of {lane}: {self.process.stderr[-3000:]}")
        (letter,) = page["messages"]
        return letter

    def ask(self, method, path):
        return get(self.base + DLQ + path, method=method)

    def retry(self, letter):
        return self.ask("POST", f"/messages/{letter['id']}/retry")

    def shown(self, letter):
        return self.ask("GET", f"/messages/{letter['id']}").json()

    def trail(self, letter):
        lines = self.ask("GET", f"/messages/{letter['id']}/audit").json()["audit"]
        return [(line["action"], line["status_from"], line["status_to"], line["actor"]) for line in lines]


@pytest.fixture
def receivers():
    made = {name: Receiver() for name in ("orders", "sales", "notes")}
    yield made
    for receiver in made.values():
        receiver.close()


def refuse_while(receiver, is_refused):
    receiver.answer_with(lambda call: REFUSED if is_refused(call) else Answer(200, {"id": "m-1"}))


def numbers(receiver):
    """Events in order of arrival, refused ones included."""
    return [call.body["n"] for call in receiver.calls]


@pytest.mark.parametrize("on_dead", ["block", "continue"])
def test_an_event_goes_back_to_its_place(programs, store, receivers, tmp_path, on_dead):
    receiver = receivers["sales"]
    fixed = []
    refuse_while(receiver, lambda call: not fixed and call.body["n"] == 1)
    service = Lanes(programs, tmp_path, store, receivers, on_dead=on_dead)
    first, *others = [write(store, "a-1", "Sold", json.dumps({"n": n}), '{"tenant": "t"}') for n in (1, 2, 3)]
    letter = service.letter_of("sales")
    wait_for_state(store, first, "dead")
    assert (letter["status"], letter["source"], letter["original_topic"]) == ("PENDING", "lane:sales", "sales")
    assert (letter["lane"], letter["outbox"], letter["outbox_row_id"]) == ("sales", "events", str(first))
    assert (letter["payload"], letter["error_class"], letter["topic"]) == ({"n": 1}, "BAD_REQUEST", None)
    assert "400" in letter["error_message"] and letter["retryable"], letter
    assert row(store, first)["last_error"].endswith(letter["error_message"].removeprefix("BAD_REQUEST: "))
    assert service.shown(letter)["key"] == "a-1"
    raw = service.ask("GET", f"/messages/{letter['id']}/raw").json()
    assert json.loads(raw["value_text"]) == {"n": 1} and ("tenant", "t") in [
        (header["name"], header["value_text"]) for header in raw["headers"]]
    if on_dead == "continue":
        for event in others:
            wait_for_state(store, event, "published")
    else:
        assert [row(store, event)["published"] for event in others] == [False, False], "they wait behind it"
        assert numbers(receiver) == [1]

    fixed.append(True)
    assert service.retry(letter).json() == {"id": letter["id"], "status": "RESOLVED", "message": "message retry initiated"}
    for event in (first, *others):
        wait_for_state(store, event, "published")
    assert numbers(receiver) == ([1, 1, 2, 3] if on_dead == "block" else [1, 2, 3, 1])
    keys = [call.headers["idempotency-key"] for call in receiver.calls if call.body["n"] == 1]
    assert len(keys) == 2 and len(set(keys)) == 1, "the same message"
    assert service.trail(letter) == [("retry_begun", "PENDING", "RETRYING", "anonymous"),
                                     ("returned", "RETRYING", "RESOLVED", "anonymous")]


START_OVER = {"postgres": ["TRUNCATE outbox RESTART IDENTITY"],
              "sqlite": ["DELETE FROM outbox", "DELETE FROM sqlite_sequence WHERE name = 'outbox'"]}


def test_another_event_with_the_same_row_id_has_a_letter_of_its_own(programs, store, receivers, tmp_path):
    """Row ids start over in a table that was emptied. The letter of the earlier event must not be overwritten."""
    refuse_while(receivers["sales"], lambda call: True)
    service = Lanes(programs, tmp_path, store, receivers)
    first = write(store, "a-1", payload='{"n": 1}')
    earlier = service.letter_of("sales")
    for statement in START_OVER[store.kind]:
        store.query(statement)
    assert write(store, "a-2", payload='{"n": 2}') == first, "the same row id"
    wait_for_state(store, first, "dead")
    later, kept = service.get(f"{DLQ}/sales").json()["messages"]
    assert (later["payload"], kept["payload"]) == ({"n": 2}, {"n": 1})
    assert (kept["id"], kept["outbox_row_id"], kept["status"]) == (earlier["id"], None, "PENDING")
    assert ("row_reused", "PENDING", "PENDING") in [line[:3] for line in service.trail(kept)]
    assert service.retry(later).status == 200 and service.shown(kept)["status"] == "PENDING"


def test_a_blocked_aggregate_continues_when_its_dead_letter_is_revived(programs, store, receivers, tmp_path):
    """After its last return failed, the event blocks later ones and a retry is refused."""
    receiver = receivers["sales"]
    fixed = []
    refuse_while(receiver, lambda call: not fixed and call.body["n"] == 1)
    service = Lanes(programs, tmp_path, store, receivers, on_dead="block")
    first, second = (write(store, "a-1", "Sold", json.dumps({"n": n})) for n in (1, 2))
    letter = service.letter_of("sales")
    for returned, status in enumerate(("PENDING", "PENDING", "DEAD"), 1):
        assert service.retry(letter).json()["status"] == "RESOLVED"
        wait_for(lambda: service.shown(letter)["status"] == status and receiver.count() == returned + 1, DEADLINE_SECONDS,
                 lambda: f"it to be {status}: {service.shown(letter)}")
    assert error(service.retry(letter))[:2] == (409, "SYS_DLQ_CONFLICT")
    assert numbers(receiver) == [1] * 4 and not row(store, second)["published"]

    fixed.append(True)
    reported = programs.run("dlq", "revive", letter["id"], "--config", service.config).ok().stdout
    assert reported.startswith(f"{letter['id']} PENDING: "), reported
    programs.run("dlq", "retry", letter["id"], "--config", service.config).ok()
    for event in (first, second):
        wait_for_state(store, event, "published")
    assert numbers(receiver) == [1] * 5 + [2]
    assert [line[:3] for line in service.trail(letter)][-3:] == [
        ("revived", "DEAD", "PENDING"), ("retry_begun", "PENDING", "RETRYING"), ("returned", "RETRYING", "RESOLVED")]


def test_a_memory_goes_back_and_may_die_again(programs, store, receivers, tmp_path):
    receiver = receivers["notes"]
    fixed = []
    refuse_while(receiver, lambda call: not fixed)
    service = Lanes(programs, tmp_path, store, receivers)
    (outbox_id,) = fill(store, 1)
    letter = service.letter_of("notes")
    assert (letter["source"], letter["outbox"], letter["outbox_row_id"]) == ("lane:notes", "memory", str(outbox_id))
    assert service.ask("POST", "/notes/retry-all").json()["retried"] == 1

    def dead_again():
        shown = service.shown(letter)
        return shown["status"] == "PENDING" and shown["retry_count"] == 1 and receiver.count() == 2

    wait_for(dead_again, DEADLINE_SECONDS, lambda: f"it to die again: {service.shown(letter)}")
    assert service.letter_of("notes")["id"] == letter["id"], "one letter per row"
    fixed.append(True)
    assert service.retry(letter).json()["status"] == "RESOLVED"
    wait_for(lambda: receiver.count() == 3, DEADLINE_SECONDS, "the third attempt")
    assert len({call.key for call in receiver.calls}) == 1
    wait_for(lambda: store.query("SELECT status FROM outbox_memory")[0]["status"] == "sent", DEADLINE_SECONDS, "sent")
    assert service.shown(letter)["status"] == "RESOLVED"


def test_an_order_is_not_sent_again(programs, store, receivers, tmp_path):
    receiver = receivers["orders"]
    refuse_while(receiver, lambda call: True)
    service = Lanes(programs, tmp_path, store, receivers)
    assert Client([service.port]).post(an_order("order-00001")).status == 201
    letter = service.letter_of("orders")
    assert (letter["status"], letter["source"], letter["retryable"]) == ("DEAD", "lane:orders", False)
    assert letter["payload"]["symbol"] == "ACME.X" and letter["error_class"] == "BAD_REQUEST"
    assert service.shown(letter)["key"] == "order-00001"
    status, code, message = error(service.retry(letter))
    assert (status, code) == (409, "SYS_DLQ_CONFLICT") and "a dead order is not sent again" in message, message
    assert message.endswith(letter["not_retryable_reason"])
    assert service.ask("POST", "/orders/retry-all").json()["retried"] == 0
    assert receiver.count() == 1 and service.shown(letter) == {**letter, **{
        name: value for name, value in service.shown(letter).items() if name not in letter}}
    assert service.trail(letter) == []


def test_a_deleted_row_is_reported(programs, store, receivers, tmp_path):
    refuse_while(receivers["sales"], lambda call: True)
    service = Lanes(programs, tmp_path, store, receivers)
    event = write(store, "a-1", "Sold", '{"n": 1}')
    letter = service.letter_of("sales")
    store.query("DELETE FROM outbox WHERE id = ? RETURNING id", event)
    status, code, message = error(service.retry(letter))
    assert (status, code) == (409, "SYS_DLQ_CONFLICT") and "not put back into its lane" in message, message
    assert service.shown(letter)["status"] != "RESOLVED"


def test_a_row_is_dead_only_with_its_letter(programs, store, receivers, tmp_path):
    """The row is settled and its letter written in one transaction. If the letter cannot be written, the row is not dead."""
    refuse_while(receivers["sales"], lambda call: True)
    if store.kind == "postgres":
        store.query("ALTER TABLE dlq.dlq_messages ADD CONSTRAINT closed CHECK (lane IS NULL) NOT VALID; SELECT 1")
    else:
        store.query("CREATE TRIGGER closed BEFORE INSERT ON dlq_messages WHEN new.lane IS NOT NULL"
                    " BEGIN SELECT raise(abort, 'closed'); END")
    service = Lanes(programs, tmp_path, store, receivers)
    event = write(store, "a-1", "Sold", '{"n": 1}')
    wait_for(lambda: service.process.stderr.count('"operation":"settle"') >= 2, DEADLINE_SECONDS, "it to be tried again")
    assert row(store, event)["dead_at"] is None
    store.query("ALTER TABLE dlq.dlq_messages DROP CONSTRAINT closed; SELECT 1" if store.kind == "postgres"
                else "DROP TRIGGER closed")
    letter = service.letter_of("sales")
    wait_for_state(store, event, "dead")
    assert store.query(f"SELECT count(*) AS n FROM {table(store)}") == [{"n": 1}] and letter["outbox_row_id"] == str(event)
    assert receivers["sales"].count() == 1, "the outcome is kept until it can be recorded"
