"""The order outbox in operation: settings, stuck orders, upkeep, the command line."""

import json
import threading
from datetime import datetime

import pytest
from harness.orders import (
    OrderService,
    an_order,
    check_trail,
    error_code,
    everything,
    order_rows,
    order_statuses,
    trails,
    write_orders_config,
)
from harness.receiver import Answer
from harness.waiting import wait_for

KEY = "order-0001"
LONG_AGO = "2020-01-01T00:00:00.000Z"


@pytest.fixture
def start(programs, store, broker, tmp_path):
    return lambda **more: OrderService(programs, tmp_path, store, broker, **more)


# ---- settings ----

def shown_settings(programs, config, env=None):
    shown = json.loads(programs.run("config", "show", "--json", "--config", config, env=env).ok().stdout)
    return {found["setting"]: (found["value"], found["origin"]) for found in shown}


def test_the_environment_overrides_the_lane(programs, sqlite, broker, tmp_path):
    config = write_orders_config(tmp_path, sqlite, broker, lane={"batch_size": 5, "idle_sleep_ms": 50})
    variables = {"OUTBOX_BATCH_SIZE": ("batch_size", "7"), "OUTBOX_PARALLELISM": ("parallelism", "3"),
                 "OUTBOX_RETRY_MAX": ("retry.max", "2"), "OUTBOX_IDLE_SLEEP_MS": ("idle_sleep_ms", "30"),
                 "OUTBOX_STUCK_THRESHOLD_MIN": ("stuck_threshold_min", "0.5")}
    plain = shown_settings(programs, config)
    env = {name: value for name, (_, value) in variables.items()}
    changed = shown_settings(programs, config, env)
    for name, (setting, value) in variables.items():
        assert plain[f"lanes.orders.{setting}"][0] != value
        assert changed[f"lanes.orders.{setting}"][0] == value
        assert name in changed[f"lanes.orders.{setting}"][1], "it says where the value came from"
    for name in variables:
        line = programs.run("config", "check", "--config", config, env={name: "many"}).error_line(2)
        assert name in line and "many" in line


def test_retry_max_from_the_environment_is_obeyed(start, broker):
    client = start(env={"OUTBOX_RETRY_MAX": "1"}).client()
    broker.answer_with(lambda call: Answer(503))
    client.post(an_order(KEY))
    assert client.wait_for_status(KEY, "dead")["retry_count"] == 1
    assert broker.times() == {KEY: 2}


def held_back(broker, gate):
    """A script that accepts orders and answers once the gate is open."""

    def script(call):
        answer = broker.process(call)
        answer.hold = gate
        return answer

    return script


def test_parallelism_from_the_environment_is_obeyed(start, store, broker):
    gate = threading.Event()
    broker.answer_with(held_back(broker, gate))
    client = start(env={"OUTBOX_PARALLELISM": "2"}, lane={"batch_size": 2}).client()
    for number in range(20):
        client.post(an_order(f"order-{number:04}"))
    wait_for(lambda: order_statuses(store).get("sending", 0) >= 4, 20, "more to be claimed than may be sent")
    wait_for(lambda: broker.count() >= 2, 20, "two sends")
    assert broker.count() == 2
    gate.set()
    wait_for(lambda: order_statuses(store) == {"sent": 20}, 20, lambda: f"{order_statuses(store)}")


def test_batch_size_from_the_environment_is_obeyed(programs, store, broker, tmp_path):
    client = OrderService(programs, tmp_path, store).client()
    for number in range(5):
        client.post(an_order(f"order-{number:04}"))
    config = write_orders_config(tmp_path, store, broker, name="worker.yaml")
    programs.run("worker", "--lane", "orders", "--once", "--config", config, env={"OUTBOX_BATCH_SIZE": "3"}).ok()
    assert order_statuses(store) == {"sent": 3, "queued": 2}


# ---- stuck orders ----

def test_an_order_whose_worker_was_killed_is_sent_by_the_next(start, broker):
    threshold_seconds = 1.2
    env = {"OUTBOX_STUCK_THRESHOLD_MIN": str(threshold_seconds / 60)}
    never = threading.Event()

    def take_and_hold(call):
        broker.take_order(call)
        return Answer(hold=never)

    broker.first_answers(take_and_hold)
    victim = start(env=env)
    victim.client().post(an_order(KEY))
    wait_for(lambda: broker.count() == 1, 20, "the send")
    victim.process.kill9()
    order = start(env=env).client().wait_for_status(KEY, "sent")
    never.set()
    assert [line["reason"] for line in order["audit"]] == ["order_accepted", "outbox_claim", "outbox_stuck",
                                                           "outbox_claim", "outbox_flush_success"]
    claimed, freed = (datetime.fromisoformat(order["audit"][number]["at"]) for number in (1, 2))
    assert (freed - claimed).total_seconds() >= threshold_seconds, "not before its time"
    assert (order["retry_count"], order["result_digest"]) == (0, "sha256:from-conflict")
    assert (broker.times(), broker.keys()) == ({KEY: 2}, {KEY})
    broker.check_every_attempt_was_the_same()


def test_an_order_that_takes_long_is_not_stuck(start, store, broker):
    """Its worker renews it long past the threshold; no other worker may send it."""
    gate = threading.Event()
    broker.first_answers(lambda call: Answer(201, {"idempotency_key": KEY}, hold=gate))
    lane = {"stuck_threshold_min": 0.06, "sink": {"type": "http", "url": broker.url, "timeout_ms": 120000}}
    owner, other = start(lane=lane, name="owner.yaml"), start(lane=lane, name="other.yaml")
    owner.client().post(an_order(KEY))
    renewals = set()

    def renewed_often():
        renewals.add(order_rows(store)[0]["updated_at"])
        return len(renewals) >= 6  # accepted, claimed, and four at a third of the threshold each

    wait_for(renewed_often, 30, lambda: f"renewals: {renewals}")
    gate.set()
    order = other.client().wait_for_status(KEY, "sent")
    assert [line["reason"] for line in order["audit"]] == ["order_accepted", "outbox_claim", "outbox_flush_success"]
    assert broker.times() == {KEY: 1}


# ---- upkeep ----

QUICK_UPKEEP = {"upkeep": {"ledger_purge_seconds": 0.1}}


def ledger_keys(store):
    return {row["idempotency_key"] for row in store.query("SELECT idempotency_key FROM idempo_ledger")}


def expire(store, key):
    store.query("UPDATE idempo_ledger SET expires_at = ? WHERE idempotency_key = ?", LONG_AGO, key)


def test_expired_ledger_rows_are_purged_and_the_order_can_still_be_read(start, store, broker):
    client = start(**QUICK_UPKEEP).client()
    for key in (KEY, "order-0002"):
        client.post(an_order(key))
        client.wait_for_status(key, "sent")
    first = client.post(an_order(KEY)).json()
    expire(store, KEY)
    wait_for(lambda: ledger_keys(store) == {"order-0002"}, 20, lambda: f"the purge: {ledger_keys(store)}")
    again = client.post(an_order(KEY))
    assert again.status == 200
    for name in ("id", "status", "request_digest", "created_at", "broker_order_id"):
        assert again.json()[name] == first[name]
    assert error_code(client.post(an_order(KEY, qty=6))) == (409, "IDEMPOTENCY_CONFLICT")
    assert client.look("order-0002").json()["result"] == broker.result("order-0002")
    assert broker.times() == {KEY: 1, "order-0002": 1}


def test_an_order_that_is_sent_after_the_purge_has_its_result(start, store, broker):
    gate = threading.Event()
    broker.answer_with(held_back(broker, gate))
    client = start(**QUICK_UPKEEP).client()
    client.post(an_order(KEY))
    wait_for(lambda: broker.count() == 1, 20, "the send")
    expire(store, KEY)
    wait_for(lambda: ledger_keys(store) == set(), 20, "the purge")
    gate.set()
    assert client.wait_for_status(KEY, "sent")["result"] == broker.result(KEY)
    assert ledger_keys(store) == {KEY}


def leases(store):
    return "deliverd.leases" if store.kind == "postgres" else "deliverd_leases"


def database_now(store):
    """In the time format of the leases table."""
    if store.kind == "postgres":
        return store.query("SELECT clock_timestamp() AS now")[0]["now"]
    return store.query("SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AS now")[0]["now"]


def test_upkeep_waits_while_another_process_has_the_lease(start, store):
    soon = "now() + interval '2 seconds'" if store.kind == "postgres" \
        else "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+2 seconds')"
    services = [start(name=f"{name}.yaml", **QUICK_UPKEEP) for name in ("left", "right")]
    wait_for(lambda: store.query(f"SELECT * FROM {leases(store)} WHERE name = 'upkeep'"), 20, "the first upkeep")
    store.query(f"UPDATE {leases(store)} SET owner = 'somebody', token = 1000, expires_at = {soon}")
    (held,) = store.query(f"SELECT expires_at FROM {leases(store)}")
    client = services[0].client()
    client.post(an_order(KEY))
    client.wait_for_status(KEY, "sent")
    expire(store, KEY)
    wait_for(lambda: ledger_keys(store) == set(), 20, "the purge")
    assert database_now(store) >= held["expires_at"], "not while somebody else had it"
    (taken,) = store.query(f"SELECT * FROM {leases(store)}")
    assert taken["owner"] != "somebody" and taken["token"] > 1000


# ---- the command line ----

@pytest.fixture
def run(programs, store, tmp_path):
    """Runs `deliverd orders …` on the store."""

    def go(*args, **more):
        return programs.run("orders", *args, "--database", store.url, **more)

    return go


def test_submit_show_and_list(run, store, tmp_path):
    (tmp_path / "order.json").write_text(json.dumps(an_order(KEY, qty=3)))
    first = json.loads(run("submit", "--file", "order.json").ok().stdout)
    assert (first["idempotency_key"], first["status"]) == (KEY, "queued")
    assert json.loads(run("submit", "--file", "order.json").ok().stdout)["id"] == first["id"]
    run("submit", "--file", "-", stdin=json.dumps(an_order("order-0002"))).ok()
    assert order_statuses(store) == {"queued": 2}

    shown = json.loads(run("show", KEY).ok().stdout)
    assert (shown["id"], shown["request"]["qty"]) == (first["id"], 3)
    assert [line["reason"] for line in shown["audit"]] == ["order_accepted"]
    assert shown["audit"][0]["actor"].startswith("cli:")

    listed = json.loads(run("list", "--json").ok().stdout)
    assert [row["idempotency_key"] for row in listed] == ["order-0002", KEY], "newest first"
    assert {"id", "request_json", "request_digest", "status", "retry_count", "next_attempt_at", "last_error",
            "created_at", "updated_at"} <= set(listed[0])
    assert json.loads(run("list", "--status", "dead", "--json").ok().stdout) == []
    assert len(json.loads(run("list", "--status", "queued", "--limit", "1", "--json").ok().stdout)) == 1
    table = run("list").ok().stdout
    assert KEY in table and "queued" in table


def test_what_cannot_be_submitted(run, store, tmp_path):
    run("submit", "--file", "-", stdin=json.dumps(an_order(KEY))).ok()
    before = everything(store)
    for text, words in ((json.dumps(an_order(KEY, qty=6)), ["IDEMPOTENCY_CONFLICT", KEY]),
                        (json.dumps(an_order("order-0002", qty=0, symbol="x")), ["VALIDATION_ERROR", "qty", "symbol"]),
                        ('{"symbol": "ACME.X", "symbol": "B"}', ["BAD_JSON"]), ("", ["BAD_JSON"]),
                        (json.dumps(an_order("short")), ["idempotency_key"])):
        line = run("submit", "--file", "-", stdin=text).error_line(1)
        assert all(word in line for word in words), line
    for name in ("no-such-file.json", str(tmp_path)):
        assert name in run("submit", "--file", name).error_line(2)
    assert "no-such-key" in run("show", "no-such-key").error_line(1)
    assert "lost" in run("list", "--status", "lost").error_line(2)
    assert everything(store) == before


def test_worker_once(run, programs, store, broker, tmp_path):
    config = write_orders_config(tmp_path, store, broker)
    for number in range(3):
        run("submit", "--file", "-", stdin=json.dumps(an_order(f"order-{number:04}"))).ok()
    once = ("worker", "--lane", "orders", "--once", "--json", "--config", config)
    (summary,) = programs.run(*once).ok().json_lines()
    assert (summary["claimed"], summary["sent"]) == (3, 3)
    assert order_statuses(store) == {"sent": 3} and set(broker.times().values()) == {1}
    assert broker.keys() == {"order-0000", "order-0001", "order-0002"}
    for lines in trails(store).values():
        check_trail(lines)
    broker.answer_with(lambda call: Answer(500))
    run("submit", "--file", "-", stdin=json.dumps(an_order("order-0003"))).ok()
    failed = programs.run(*once)
    assert failed.status == 1
    assert order_statuses(store) == {"sent": 3, "failed": 1}
