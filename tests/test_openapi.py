"""Every answer of the running service conforms to /openapi.json."""

import http.client
import json
from urllib.parse import quote, urlsplit

import pytest
from harness.openapi import Document
from harness.service import start_with_tokens, token
from harness.waiting import wait_for
from harness.web import Page, get
from jsonschema import ValidationError
from openapi_spec_validator import validate

ORDERS = "/api/v1/orders"
ORDER = "/api/v1/orders/{key}"
LARGE_BODY_BYTES = 2_000_000


class Api:
    """Sends requests with a token and validates each answer against the OpenAPI document."""

    def __init__(self, service):
        self.service = service
        self.document = Document(service.get("/openapi.json", token("vera")).json())

    def ask(self, method, template, path=None, who="otto", headers=None, body=None):
        sent = ({"Authorization": f"Bearer {token(who)}"} if who else {}) | (headers or {})
        page = get(self.service.base + (path or template), headers=sent, method=method, body=body)
        return self.document.check(method, template, page)

    def post(self, order, key=None, **more):
        body = order if isinstance(order, bytes) else json.dumps(order).encode()
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.ask("POST", ORDERS, headers=headers, body=body, **more)

    def look(self, key, **more):
        return self.ask("GET", ORDER, path=f"{ORDERS}/{quote(key, safe='')}", **more)


def an_order(**changes):
    return {"idempotency_key": "order-0001", "symbol": "AAPL", "intent": "BUY", "qty": 10} | changes


def code(page):
    return page.status, page.json()["error"]["code"]


@pytest.fixture
def api(programs, store, tmp_path):
    return Api(start_with_tokens(programs, tmp_path, store.url))


def announce(base, length):
    """The answer to a POST that only announces the length of its body."""
    connection = http.client.HTTPConnection(urlsplit(base).netloc, timeout=60)
    try:
        connection.putrequest("POST", ORDERS)
        connection.putheader("Authorization", f"Bearer {token('otto')}")
        connection.putheader("Idempotency-Key", "order-0001")
        connection.putheader("Content-Length", str(length))
        connection.endheaders()
        answer = connection.getresponse()
        return Page(answer.status, dict(answer.headers), answer.read().decode())
    finally:
        connection.close()


def test_the_document_is_openapi(api):
    validate(api.document.document)


def test_a_wrong_answer_is_found(api):
    """Without this, the other tests here would prove nothing."""
    page = api.post(an_order(), "order-0001")
    for change in ({"id": "1"}, {"status": "lost"}, {"request_digest": "ab"}, {"extra": 1}, {"created_at": "yesterday"}):
        with pytest.raises(ValidationError):
            api.document.check("POST", ORDERS, Page(201, page.headers, json.dumps(page.json() | change)))
    with pytest.raises(AssertionError):
        api.document.check("POST", ORDERS, Page(202, page.headers, page.text))
    with pytest.raises(AssertionError):
        api.document.check("POST", ORDERS, Page(201, {"Content-Type": "application/json"}, page.text))


def test_orders(api):
    first = api.post(an_order(), "order-0001")
    assert first.status == 201 and first.headers["Location"] == ORDERS + "/order-0001"
    again = api.post(an_order(qty=10.0, trace_id="another"), "order-0001")
    assert again.status == 200
    assert {name: again.json()[name] for name in ("id", "request_digest", "created_at")} \
        == {name: first.json()[name] for name in ("id", "request_digest", "created_at")}
    assert code(api.post(an_order(qty=11), "order-0001")) == (409, "IDEMPOTENCY_CONFLICT")
    assert code(api.post(an_order())) == (400, "IDEMPOTENCY_KEY_REQUIRED")
    assert code(api.post(b"{", "order-0001")) == (400, "BAD_JSON")
    assert code(api.post(an_order(), "order-0002")) == (422, "IDEMPOTENCY_MISMATCH")
    wrong = api.post(an_order(qty=0, symbol="a", colour="red"), "order-0001")
    assert code(wrong) == (422, "VALIDATION_ERROR")
    assert [detail["field"] for detail in wrong.json()["error"]["details"]] == ["symbol", "qty", "colour"]
    assert code(api.post(an_order(), "order-0001", who=None)) == (401, "UNAUTHORIZED")
    assert code(api.post(an_order(), "order-0001", who="vera")) == (403, "FORBIDDEN")
    assert code(api.document.check("POST", ORDERS, announce(api.service.base, LARGE_BODY_BYTES))) \
        == (413, "PAYLOAD_TOO_LARGE")
    large = {"Idempotency-Key": "order-0001", "X-Filler": "x" * 20_000}
    assert code(api.ask("POST", ORDERS, headers=large, body=b"{}")) == (431, "HEADERS_TOO_LARGE")
    form = {"Idempotency-Key": "order-0001", "Content-Type": "application/x-www-form-urlencoded"}
    assert code(api.ask("POST", ORDERS, headers=form, body=b"{}")) == (415, "UNSUPPORTED_MEDIA_TYPE")
    left = api.document.documented("POST", ORDERS) - api.document.seen["postOrder"]
    assert left == {421, 500, 503}, "421 is without tokens, 503 in a test of its own, and a 500 would be a bug"


def test_reading_an_order(api):
    body = b'{"idempotency_key":"order-0001","symbol":"AAPL","intent":"SELL","qty":12345678901234567890.10,"meta":{"a":[]}}'
    api.post(body, "order-0001")
    page = api.look("order-0001", who="vera")
    assert page.status == 200 and b"12345678901234567890.10" in page.text.encode()
    found = page.json()
    assert found["request"]["trace_id"] == found["trace_id"]
    assert found["audit"][0]["actor"] == "otto"
    assert code(api.look("order-0002")) == (404, "ORDER_NOT_FOUND")
    assert code(api.look("order-0001", who=None)) == (401, "UNAUTHORIZED")
    assert code(api.ask("GET", ORDER, path=ORDERS + "/%ff")) == (400, "BAD_REQUEST")
    assert code(api.look("order-0001", headers={"X-Filler": "x" * 20_000})) == (431, "HEADERS_TOO_LARGE")
    left = api.document.documented("GET", ORDER) - api.document.seen["getOrder"]
    assert left == {403, 421, 500, 503}, "no role is smaller than viewer, and 421 is without tokens"


def test_keys_of_every_kind_come_back(api):
    for key in ("a/b?c#d%e", "spaces in it", "ключ-заказа", "😀😀😀😀😀😀😀😀", "12345678", "x" * 64):
        page = api.post(an_order(idempotency_key=key), key.encode().decode("latin-1"))
        assert page.status == 201, page.text
        assert api.ask("GET", ORDER, path=page.headers["Location"]).json()["idempotency_key"] == key


def test_the_service_itself(api):
    assert api.ask("GET", "/healthz", who=None).json() == {"status": "ok"}
    assert api.ask("GET", "/readyz", who=None).json() == {"status": "ready"}
    for path in ("/metrics", "/openapi.json"):
        assert api.ask("GET", path, who="vera").status == 200
        assert api.ask("GET", path, who=None).status == 401
    nowhere = get(api.service.base + "/nowhere")
    api.document.check_error(nowhere, 404, "NOT_FOUND")
    wrong = get(api.service.base + ORDERS, method="PUT", body=b"{}")
    api.document.check_error(wrong, 405, "METHOD_NOT_ALLOWED")
    assert wrong.headers["Allow"] == "POST"


def test_without_its_database(programs, postgres, proxy, tmp_path):
    """Database unreachable: a 503 that says whether the order may be stored, and 201 once it is back."""
    api = Api(start_with_tokens(programs, tmp_path, postgres.server.url(postgres.database, port=proxy.port)))
    assert api.post(an_order(), "order-0001").status == 201
    proxy.refuse(True)
    proxy.cut()
    wait_for(lambda: api.ask("GET", "/readyz", who=None).status == 503, 30, "/readyz to notice")
    lost = api.post(an_order(idempotency_key="order-0002"), "order-0002")
    assert code(lost) in [(503, "DATABASE_UNAVAILABLE"), (503, "OUTCOME_UNKNOWN")]
    assert int(lost.headers["Retry-After"]) >= 0
    assert code(api.look("order-0001")) == (503, "DATABASE_UNAVAILABLE")
    assert api.ask("GET", "/healthz", who=None).status == 200
    proxy.refuse(False)
    wait_for(lambda: api.post(an_order(idempotency_key="order-0002"), "order-0002").status in (200, 201), 30,
             "the order to be taken")
    assert api.look("order-0002").status == 200
