"""Orders sent to the broker: what each answer means, and that every attempt sends the same order."""

import datetime
import email.utils
import threading
import time

import pytest
from harness.orders import QUICK_LANE, OrderService, an_order, check_trail, order_statuses, trails
from harness.receiver import Answer
from harness.waiting import wait_for

KEY = "order-0001"
RETRY_AFTER_SECONDS = 3


@pytest.fixture
def start(programs, store, broker, tmp_path):
    return lambda **more: OrderService(programs, tmp_path, store, broker, **more)


def test_two_failures_then_success(start, store, broker):
    client = start().client()
    broker.first_answers(Answer(500), Answer(503))
    client.post(an_order(KEY))
    order = client.wait_for_status(KEY, "sent")
    assert (order["retry_count"], order["last_error"], broker.times()) == (2, None, {KEY: 3})
    reasons = [line["reason"] for line in order["audit"]]
    assert reasons == ["order_accepted", "outbox_claim", "outbox_flush_retry", "outbox_requeue", "outbox_claim",
                       "outbox_flush_retry", "outbox_requeue", "outbox_claim", "outbox_flush_success"]
    check_trail(trails(store)[KEY])
    broker.check_every_attempt_was_the_same()


@pytest.mark.parametrize("status, body, error", [
    (400, {"message": "no such symbol"}, "BAD_REQUEST"),
    (422, {}, "BAD_REQUEST"),
    (401, {}, "UNAUTHORIZED"),
    (403, {}, "UNAUTHORIZED"),
    (404, {}, "REJECTED"),
    (409, {"code": "duplicate_symbol", "idempotency_key": KEY}, "REJECTED"),
], ids=["400", "422", "401", "403", "404", "409"])
def test_a_refused_order_is_dead_at_once(start, broker, status, body, error):
    client = start().client()
    broker.answer_with(lambda call: Answer(status, body))
    client.post(an_order(KEY))
    order = client.wait_for_status(KEY, "dead")
    assert (order["retry_count"], order["last_error"], order["result"]) == (0, error, None)
    assert [line["reason"] for line in order["audit"]] == ["order_accepted", "outbox_claim", "outbox_flush_dead"]
    broker.answer_with(broker.process)
    assert client.post(an_order(KEY)).json()["status"] == "dead", "posting it again does not send it again"
    client.post(an_order("order-0002"))
    client.wait_for_status("order-0002", "sent")
    assert broker.times() == {KEY: 1, "order-0002": 1}


@pytest.mark.parametrize("answer", [
    Answer(200, {"broker_order_id": "b-9"}),
    Answer(201, {"idempotency_key": "order-0002"}),
    Answer(200, b"<html>welcome</html>"),
    Answer(200, b""),
    Answer(409, {"code": "already_processed", "idempotency_key": "order-0002"}),
    Answer(302, {}, {"Location": "/elsewhere"}),
], ids=["without a key", "another key", "not JSON", "empty", "another key's 409", "redirect"])
def test_an_answer_without_this_orders_key_is_unknown_and_retried(start, broker, answer):
    client = start().client()
    broker.first_answers(answer)
    client.post(an_order(KEY))
    order = client.wait_for_status(KEY, "sent")
    assert [line["last_error"] for line in order["audit"] if line["reason"] == "outbox_flush_retry"] == ["UNKNOWN"]
    assert (order["retry_count"], order["result"], broker.times()) == (1, broker.result(KEY), {KEY: 2})
    broker.check_every_attempt_was_the_same()


def test_a_broker_that_accepts_the_order_and_drops_the_connection(start, broker):
    client = start().client()
    broker.first_answers(broker.take_and_drop)
    client.post(an_order(KEY))
    order = client.wait_for_status(KEY, "sent")
    assert (broker.times(), broker.keys()) == ({KEY: 2}, {KEY})
    broker.check_every_attempt_was_the_same()
    assert order["result_digest"] == "sha256:from-conflict"
    assert (order["retry_count"], order["last_error"]) == (1, "CONFLICT_PROCESSED")
    retries = [line for line in order["audit"] if line["reason"] == "outbox_flush_retry"]
    assert [line["last_error"] for line in retries] == ["NETWORK_TIMEOUT"]
    repeated = client.post(an_order(KEY)).json()
    assert (repeated["status"], repeated["result_digest"]) == ("sent", "sha256:from-conflict")


def test_a_broker_that_accepts_the_order_and_does_not_answer(start, broker):
    answered_in_time = threading.Event()

    def take_and_hold(call):
        broker.take_order(call)
        return Answer(hold=answered_in_time)

    client = start(lane={"sink": {"type": "http", "url": broker.url, "timeout_ms": 1000}}).client()
    broker.first_answers(take_and_hold)
    client.post(an_order(KEY))
    order = client.wait_for_status(KEY, "sent")
    answered_in_time.set()
    assert order["audit"][2]["last_error"] == "NETWORK_TIMEOUT"
    retries = sum(line["reason"] == "outbox_flush_retry" for line in order["audit"])  # 1, where answers are quick
    assert (order["result_digest"], broker.keys()) == ("sha256:from-conflict", {KEY})
    assert broker.times() == {KEY: 1 + retries}


def test_the_last_retry_that_fails_is_dead(start, broker):
    client = start(lane={"retry": QUICK_LANE["retry"] | {"max": 2}}).client()
    broker.answer_with(lambda call: Answer(503))
    client.post(an_order(KEY))
    order = client.wait_for_status(KEY, "dead")
    assert (order["retry_count"], order["last_error"], broker.times()) == (2, "BROKER_5XX", {KEY: 3})


def test_a_dead_order_says_whether_the_broker_may_have_it(start, broker):
    client = start(lane={"retry": QUICK_LANE["retry"] | {"max": 1}}).client()
    broker.answer_with(lambda call: Answer(drop=True))
    client.post(an_order(KEY))
    order = client.wait_for_status(KEY, "dead")
    assert (order["last_error"], order["in_doubt"]) == ("NETWORK_TIMEOUT", True)
    broker.answer_with(lambda call: Answer(503))
    client.post(an_order("order-0002"))
    order = client.wait_for_status("order-0002", "dead")
    assert (order["last_error"], order["in_doubt"]) == ("BROKER_5XX", False)


def test_retry_after_of_days_is_kept(start, broker):
    client = start().client()
    broker.answer_with(lambda call: Answer(503, {}, {"Retry-After": str(2 * 24 * 3600)}))
    client.post(an_order(KEY))
    order = client.wait_for_status(KEY, "failed")
    due = datetime.datetime.fromisoformat(order["next_attempt_at"]) - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(hours=47) < due < datetime.timedelta(hours=49)


def test_retry_after_pauses_the_whole_lane(start, store, broker):
    service = start()
    client = service.client()
    broker.first_answers(lambda call: Answer(429, {}, {"Retry-After": str(RETRY_AFTER_SECONDS)})
                         if call.number == 1 else broker.process(call))
    client.post(an_order(KEY))
    client.wait_for_status(KEY, "failed")
    others = [f"order-{number:04}" for number in range(2, 8)]
    for key in others:
        assert client.post(an_order(key)).status == 201
    wait_for(lambda: order_statuses(store) == {"sent": 7}, 30, lambda: f"{order_statuses(store)}")
    first, *later = broker.calls
    assert first.key == KEY
    assert min(call.at for call in later) - first.at >= RETRY_AFTER_SECONDS, "nothing was sent on the lane"
    assert broker.times() == {KEY: 2} | dict.fromkeys(others, 1)
    order = client.look(KEY).json()
    assert [line["last_error"] for line in order["audit"] if line["reason"] == "outbox_flush_retry"] == ["RATE_LIMITED"]
    assert service.total(r'^outbox_send_rate_limit\{lane="orders"\}') > 0, "and now at a lowered rate"


def test_retry_after_as_a_date(start, broker):
    client = start().client()
    until = int(time.time()) + RETRY_AFTER_SECONDS
    came_at = []

    def script(call):
        came_at.append(time.time())
        if call.number == 1:
            return Answer(429, {}, {"Retry-After": email.utils.formatdate(until, usegmt=True)})
        return broker.process(call)

    broker.answer_with(script)
    client.post(an_order(KEY))
    client.wait_for_status(KEY, "sent")
    assert len(came_at) == 2 and came_at[1] >= until


def test_the_bearer_token_is_reread_from_its_file(start, broker, tmp_path):
    secret = tmp_path / "broker-token"
    secret.write_text("first-secret\n")
    service = start(lane={"sink": {"type": "http", "url": broker.url, "token_file": str(secret)}})
    client = service.client()
    client.post(an_order(KEY))
    client.wait_for_status(KEY, "sent")
    secret.write_text("second-secret\n")
    client.post(an_order("order-0002"))
    client.wait_for_status("order-0002", "sent")
    assert [call.headers["authorization"] for call in broker.calls] == ["Bearer first-secret", "Bearer second-secret"]
    assert "-secret" not in client.look(KEY).text + service.process.stderr


def test_every_metric_moves(start, broker):
    service = start()
    client = service.client()

    def value(pattern):
        return service.total(pattern)

    outcomes = ("success", "retry", "dead", "conflict_processed")
    moving = ([rf'^outbox_send_total\{{lane="orders",outcome="{outcome}"\}}' for outcome in outcomes]
              + [r'^outbox_dequeue_total\{lane="orders",result="success"\}',
                 r'^outbox_lag_seconds_count\{lane="orders"\}', r'^outbox_lag_seconds_bucket\{lane="orders",le="',
                 r'^outbox_retry_count_count\{lane="orders"\}',
                 r'^outbox_retry_count_bucket\{lane="orders",le="2"\}'])
    assert {pattern: value(pattern) for pattern in moving} == dict.fromkeys(moving, 0)
    empty = r'^outbox_dequeue_total\{lane="orders",result="empty"\}'
    wait_for(lambda: value(empty) > 0, 10, "a look at the empty table")

    answer = threading.Event()
    scripts = {"order-take": [broker.process], "order-drop": [broker.take_and_drop], "order-dead": [Answer(400)],
               "order-hold": [lambda call: Answer(500, hold=answer)]}

    def script(call):
        scripted = scripts[call.key].pop(0) if scripts[call.key] else broker.process
        return scripted(call) if callable(scripted) else scripted

    broker.answer_with(script)
    in_flight = r'^outbox_inflight\{lane="orders"\}'
    client.post(an_order("order-hold"))
    wait_for(lambda: value(in_flight) == 1, 10, "one order at the broker")
    answer.set()
    for key in ("order-take", "order-drop", "order-dead"):
        client.post(an_order(key))
    for key, status in (("order-hold", "sent"), ("order-take", "sent"), ("order-drop", "sent"), ("order-dead", "dead")):
        client.wait_for_status(key, status)
    wait_for(lambda: value(in_flight) == 0, 10, "nothing at the broker")
    sent = dict(zip(outcomes, (2, 2, 1, 1)))  # held: retry, success; take: success; drop: retry, conflict; dead
    for outcome, count in sent.items():
        pattern = rf'^outbox_send_total\{{lane="orders",outcome="{outcome}"\}}'
        wait_for(lambda: value(pattern) == count, 10, lambda: f"{outcome}: {value(pattern)}, not {count}")
    assert value(r'^outbox_retry_count_count\{lane="orders"\}') == 4
    assert value(r'^outbox_retry_count_sum\{lane="orders"\}') == 2
    assert value(r'^outbox_lag_seconds_count\{lane="orders"\}') == 6, "one a claimed row"
    assert all(value(pattern) > 0 for pattern in moving)
