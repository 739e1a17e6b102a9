"""Orders posted over HTTP are stored once per key, whoever posts and however often."""

import hashlib
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor

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
)
from harness.receiver import Answer
from harness.service import auth_section, token
from harness.waiting import wait_for

AT_ONCE = 50
FIXED = ("id", "idempotency_key", "request_digest", "created_at")  # of the acceptance's body


@pytest.fixture
def start(programs, store, broker, tmp_path):
    """Starts a service; with `sending=False` it only accepts orders."""

    def go(sending=True, **more):
        return OrderService(programs, tmp_path, store, broker if sending else None, **more)

    return go


def digest_of(value):
    """RFC 8785 for what is used here: ASCII, whole numbers."""
    return "sha256:" + hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def fixed_part(page):
    return {name: page.json()[name] for name in FIXED}


def test_ten_posts_of_one_key_are_one_order_sent_once(start, store, broker):
    client = start().client()
    order = an_order("order-0001")
    pages = [client.post(order) for _ in range(10)]
    assert [page.status for page in pages] == [201] + [200] * 9
    assert set(pages[0].json()) == {*FIXED, "status"} and pages[0].json()["status"] == "queued"
    content = {name: order[name] for name in ("symbol", "intent", "qty")}
    assert pages[0].json()["request_digest"] == digest_of(content)
    assert all(fixed_part(page) == fixed_part(pages[0]) for page in pages)

    client.wait_for_status("order-0001", "sent")
    later = client.post(order)
    assert (later.status, fixed_part(later), later.json()["status"]) == (200, fixed_part(pages[0]), "sent")
    result = broker.result("order-0001")
    assert later.json()["result"] == result
    assert later.json()["broker_order_id"] == result["broker_order_id"]
    assert later.json()["result_digest"] == digest_of(result)

    client.post(an_order("order-0002"))
    client.wait_for_status("order-0002", "sent")
    assert broker.times() == {"order-0001": 1, "order-0002": 1}
    assert order_statuses(store) == {"sent": 2}
    assert store.query("SELECT count(*) AS n FROM idempo_ledger") == [{"n": 2}]


def test_the_same_key_with_different_content_is_a_conflict_that_changes_nothing(start, store):
    client = start(sending=False).client()
    order = an_order("order-0001", limit_price=None)
    assert client.post(order).status == 201
    before = everything(store)
    without_price = {name: value for name, value in order.items() if name != "limit_price"}
    for other in (order | {"qty": 6}, order | {"intent": "SELL"}, order | {"meta": {}}, without_price):
        assert error_code(client.post(other)) == (409, "IDEMPOTENCY_CONFLICT"), other
    assert everything(store) == before
    for same in (order | {"trace_id": "another"}, dict(reversed(order.items())), order | {"qty": 5.0}):
        assert client.post(same).status == 200, same
    assert everything(store) == before


def test_the_header_must_be_present_and_repeat_the_bodys_key(start, store):
    client = start(sending=False).client()
    order = an_order("order-0001")
    assert error_code(client.post(order, key="")) == (400, "IDEMPOTENCY_KEY_REQUIRED")
    assert error_code(client.post(order, key="order-0002")) == (422, "IDEMPOTENCY_MISMATCH")
    assert error_code(client.post(order, key="ORDER-0001")) == (422, "IDEMPOTENCY_MISMATCH")
    del order["idempotency_key"]
    assert error_code(client.post(order, key="order-0001")) == (422, "VALIDATION_ERROR")
    assert everything(store) == ([], [], [])


def test_a_wrong_order_is_refused_without_the_database(programs, postgres, proxy, tmp_path):
    url = postgres.server.url(postgres.database, port=proxy.port)
    client = OrderService(programs, tmp_path, None, database={"url": url}).client()
    proxy.refuse(True)
    proxy.cut()
    assert error_code(client.post(an_order("order-0001"), key="order-0002")) == (422, "IDEMPOTENCY_MISMATCH")
    assert error_code(client.post(an_order("order-0001"), key="")) == (400, "IDEMPOTENCY_KEY_REQUIRED")
    assert error_code(client.post(an_order("order-0001", qty=-1))) == (422, "VALIDATION_ERROR")


def post_at_once(service, orders):
    """Posts each body on its own connection and thread, all at the same moment."""
    ready = threading.Barrier(len(orders))

    def post(order):
        client = service.client()
        client.connect()
        ready.wait(120)
        try:
            return client.post(order)
        finally:
            client.close()

    with ThreadPoolExecutor(len(orders)) as pool:
        return list(pool.map(post, orders))


def test_fifty_posts_at_once_are_one_order(start, store, broker):
    service = start()
    for key in ("order-0001", "order-0002", "order-0003"):
        pages = post_at_once(service, [an_order(key)] * AT_ONCE)
        assert sorted(page.status for page in pages) == [200] * (AT_ONCE - 1) + [201]
        assert all(fixed_part(page) == fixed_part(pages[0]) for page in pages)
        service.client().wait_for_status(key, "sent")
    assert broker.times() == {"order-0001": 1, "order-0002": 1, "order-0003": 1}
    assert [row["idempotency_key"] for row in order_rows(store)] == ["order-0001", "order-0002", "order-0003"]
    for lines in trails(store).values():
        check_trail(lines)


def test_of_two_contents_at_once_one_is_the_order_and_the_other_a_conflict(start, store):
    service = start(sending=False)
    orders = [an_order("order-0001", qty=1 + number % 2) for number in range(AT_ONCE)]
    pages = post_at_once(service, orders)
    (won,) = [order for order, page in zip(orders, pages) if page.status == 201]
    for order, page in zip(orders, pages):
        assert page.status in ((200, 201) if order["qty"] == won["qty"] else (409,)), page.text
    (row,) = order_rows(store)
    assert row["request_digest"] == digest_of({"symbol": "ACME.X", "intent": "BUY", "qty": won["qty"]})


NUMBERS = {"qty": "145.001", "limit_price": "12345678901234567890.10", "big": "9007199254740993", "tiny": "0.10"}


def test_numbers_stay_as_written(start, store, broker):
    client = start().client()
    body = ('{{"idempotency_key":"order-0001", "symbol":"ACME.X","intent":"SELL","qty":{qty},\n'
            ' "limit_price":{limit_price},"trace_id":"t-1","meta":{{"big":{big},"tiny":{tiny}}}}}'.format(**NUMBERS))
    assert client.post(body.encode()).status == 201
    client.wait_for_status("order-0001", "sent")
    (stored,) = store.query("SELECT CAST(request_json AS text) AS request FROM outbox_orders")
    for name, number in NUMBERS.items():
        assert re.findall(rf'"{name}": ?([^,}}]+)', stored["request"]) == [number], stored
    (call,) = broker.calls
    assert call.raw_body == body.encode()
    shown = client.look("order-0001").text
    assert all(re.search(rf'"{name}": ?{re.escape(number)}[,}}]', shown) for name, number in NUMBERS.items()), shown


def test_a_missing_trace_id_is_generated(start, broker):
    client = start().client()
    client.post(an_order("order-0001", trace_id="mine"))
    client.post(an_order("order-0002"))
    shown = {key: client.wait_for_status(key, "sent")["trace_id"] for key in ("order-0001", "order-0002")}
    assert shown["order-0001"] == "mine" and len(shown["order-0002"]) == 36
    for call in broker.calls:
        assert call.body["trace_id"] == call.headers["x-trace-id"] == shown[call.key]


def test_reading_an_order(start, broker):
    client = start().client()
    broker.first_answers(Answer(503))
    client.post(an_order("order-0001"))
    order = client.wait_for_status("order-0001", "sent")
    assert {"id", "request_digest", "created_at", "next_attempt_at", "last_error", "result"} <= set(order)
    assert (order["retry_count"], order["last_error"], order["result"]) == (1, None, broker.result("order-0001"))
    moves = [(line["status_from"], line["status_to"], line["retry_count"]) for line in order["audit"]]
    assert moves == [(None, "queued", 0), ("queued", "sending", 0), ("sending", "failed", 1), ("failed", "queued", 1),
                     ("queued", "sending", 1), ("sending", "sent", 1)]
    times = [line["at"] for line in order["audit"]]
    assert times == sorted(times)
    assert order["audit"][2]["last_error"] == "BROKER_5XX"
    assert error_code(client.look("order-0002")) == (404, "ORDER_NOT_FOUND")


def test_roles_that_may_post(start, store):
    service = start(auth=auth_section())
    order = an_order("order-0001")
    assert error_code(service.client().post(order)) == (401, "UNAUTHORIZED")
    assert error_code(service.client(token("nobody")).post(order)) == (401, "UNAUTHORIZED")
    assert error_code(service.client(token("vera")).post(order)) == (403, "FORBIDDEN")
    assert error_code(service.client().look("order-0001")) == (401, "UNAUTHORIZED")
    assert everything(store) == ([], [], [])
    assert service.client(token("otto")).post(order).status == 201
    seen = service.client(token("vera")).wait_for_status("order-0001", "sent")
    assert seen["audit"][0]["actor"] == "otto"
    assert all(line["actor"] == line["worker"] and line["worker"] for line in seen["audit"][1:])
    assert token("otto") not in service.process.stderr


def test_a_kept_connection_serves_many_orders(start, store):
    """Two hundred orders on one TCP connection: no answer affects the next one."""
    client = start().client()
    for number in range(200):
        page = client.post(an_order(f"order-{number:04}"))
        assert (page.status, page.json()["idempotency_key"]) == (201, f"order-{number:04}")
    assert client.connections == 1
    wait_for(lambda: order_statuses(store) == {"sent": 200}, 30, lambda: f"{order_statuses(store)}")
