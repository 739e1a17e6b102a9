"""Tokens limited to topics: what their holders can see and do. And the audit of reads."""

import hashlib
import json
import re

import pytest
from harness.dead_letters import add_letter, letter
from harness.dlq_service import fresh_name
from harness.openapi import Document
from harness.ports import free_port
from harness.service import Service, auth_section, token
from harness.stores import write_config
from harness.waiting import wait_for
from harness.web import get

DLQ = "/api/v1/dlq"
UNKNOWN = "00000000-0000-4000-8000-000000000000"
LIMITED = {"olga": ("admin", ["orders", "orders.*"]), "vito": ("viewer", ["orders"]), "omar": ("admin", ["*"])}
OPEN = {("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/openapi.json")}
PURGE = "?status=PENDING&older_than_seconds=0"


def limited_token(name, role, topics):
    return {"name": name, "role": role, "topics": topics, "sha256": hashlib.sha256(token(name).encode()).hexdigest()}


class Api:
    """Sends requests with a token and validates each answer against the OpenAPI document."""

    def __init__(self, service):
        self.service = service
        self.document = Document(service.get("/openapi.json", token("vera")).json())

    def routes(self):
        return [(method.upper(), path) for path, operations in self.document.document["paths"].items()
                for method in operations]

    def ask(self, who, method, template, value="", query="", **headers):
        path = re.sub(r"\{\w+\}", value, template) + query
        sent = {"Authorization": f"Bearer {token(who)}"} | headers
        body = b"{}" if (method, template) == ("POST", "/api/v1/orders") else None
        return self.document.check(method, template, get(self.service.base + path, headers=sent, method=method, body=body))

    def status(self, *asked):
        return self.ask(*asked).status


def start(programs, folder, store, auth=None, **sections):
    tokens = auth_section()["tokens"] + [limited_token(name, *what) for name, what in LIMITED.items()]
    port = free_port()
    config = write_config(folder, store, server={"port": port}, auth={"tokens": tokens} | (auth or {}), **sections)
    return Service(programs, config, port)


@pytest.fixture
def api(programs, store, tmp_path):
    return Api(start(programs, tmp_path, store))


@pytest.fixture
def foreign(store):
    """Dead letters outside olga's scope, one of each kind."""
    return [add_letter(store, "payments", payload='{"card": "4111"}'),
            add_letter(store, "payments", source_topic="payments.dlq.v1", source_partition=0, source_offset=1),
            add_letter(store, "my-orders", source_topic="Orders.dlq.v1", source_partition=0, source_offset=1),
            add_letter(store, "ordersx", status="DEAD"),
            add_letter(store, "hooks", source="spool:hooks")]


def shape(page, letter_id):
    """Everything visible in an answer, except what differs each time."""
    headers = {name: value for name, value in page.headers.items() if name not in ("X-Request-Id", "Date")}
    text = page.text.replace(letter_id, "ID").replace(page.headers["X-Request-Id"], "REQUEST")
    return page.status, headers, text


def test_a_limited_token_learns_nothing_about_another_topics_letter(api, store, foreign):
    """Every described route with an id, for every kind of letter."""
    before = [letter(store, letter_id) for letter_id in foreign]
    routes = [route for route in api.routes() if "{id}" in route[1]]
    assert len(routes) >= 7
    for method, path in routes:
        unknown = shape(api.ask("olga", method, path, UNKNOWN), UNKNOWN)
        assert unknown[0] == 404
        for letter_id in foreign:
            assert shape(api.ask("olga", method, path, letter_id), letter_id) == unknown, (method, path)
            assert shape(api.ask("olga", method, path, letter_id.upper()), letter_id) == unknown, (method, path)
    assert [letter(store, letter_id) for letter_id in foreign] == before
    for letter_id in foreign:
        assert api.ask("ada", "GET", DLQ + "/messages/{id}/audit", letter_id).json() == {"audit": []}


def test_a_topic_out_of_scope_is_refused_whether_it_exists_or_not(api, store, foreign):
    routes = [route for route in api.routes() if "{topic}" in route[1]]
    assert len(routes) >= 2
    for method, path in routes:
        nowhere = api.ask("olga", method, path, "nowhere")
        assert nowhere.status == 403
        for topic in ("payments", "payments.dlq.v1", "Orders.dlq.v1", "ordersx", "hooks", "messages"):
            page = api.ask("olga", method, path, topic)
            assert page.status == 403 and page.text.replace(topic, "nowhere").replace(page.headers["X-Request-Id"], "") \
                == nowhere.text.replace(nowhere.headers["X-Request-Id"], ""), (method, path, topic)
    assert api.status("vito", "GET", DLQ + "/{topic}", "orders.dlq.v1") == 403, "a name is not a prefix"
    assert letter(store, foreign[0])["status"] == "PENDING"


def test_every_other_route_is_refused(api, foreign):
    """Also for a token with the pattern `*`: orders and metrics have no topic, and a purge covers all topics."""
    for who in ("olga", "omar"):
        for method, path in api.routes():
            if "{id}" in path or "{topic}" in path or (method, path) == ("GET", DLQ):
                continue
            expected = 200 if (method, path) in OPEN else 403
            query = PURGE if method == "DELETE" else ""
            assert api.ask(who, method, path, "a-key", query).status == expected, (who, method, path)
    assert api.ask("ada", "DELETE", DLQ, "", PURGE).json()["purged"] == len(foreign) - 1


def test_the_overview_names_no_other_topic(api, store, foreign):
    add_letter(store, "orders")
    add_letter(store, "x", source_topic="orders.dlq.v1", source_partition=0, source_offset=1)
    add_letter(store, "orders.lane", source="lane:orders.lane")

    def topics(who):
        return [topic["topic"] for topic in api.ask(who, "GET", DLQ).json()["topics"]]

    assert topics("olga") == ["orders", "orders.dlq.v1", "orders.lane"]
    assert topics("vito") == ["orders"]
    assert set(topics("olga")) < set(topics("omar")) == set(topics("ada"))


def test_inside_its_scope_a_token_has_its_roles_rights(api, store, foreign):
    one, all_ = DLQ + "/messages/{id}", DLQ + "/{topic}/retry-all"
    from_kafka = add_letter(store, "orders", source_topic="x.dlq.v1", source_partition=0, source_offset=1)
    of_lane = add_letter(store, "orders.lane", source="lane:orders.lane")
    by_source = add_letter(store, "x", source_topic="orders.dlq.v1", source_partition=0, source_offset=1)
    own = add_letter(store, "orders")
    listed = api.ask("olga", "GET", DLQ + "/{topic}", "orders").json()["messages"]
    assert [found["id"] for found in listed] == [own, from_kafka]
    for letter_id in (own, from_kafka, of_lane, by_source):
        for rest in ("", "/raw", "/audit"):
            assert api.ask("olga", "GET", one + rest, letter_id).json() == api.ask("ada", "GET", one + rest, letter_id).json()
    assert api.status("vito", "GET", one, own) == 200 and api.status("vito", "GET", one, of_lane) == 404
    assert api.status("vito", "POST", one + "/dead", own) == 403, "a viewer"
    assert api.ask("olga", "POST", one + "/dead", own).json()["status"] == "DEAD"
    assert api.ask("olga", "POST", one + "/revive", own).json()["status"] == "PENDING"
    assert api.ask("olga", "POST", one + "/retry", own).json()["status"] == "RESOLVED"
    assert {line["actor"] for line in api.ask("olga", "GET", one + "/audit", own).json()["audit"]} == {"olga"}
    more = [add_letter(store, "orders.v2") for _ in range(2)]
    assert api.ask("olga", "POST", all_, "orders.v2").json()["retried"] == len(more)
    assert api.status("olga", "DELETE", one, own) == 200
    assert api.status("olga", "GET", one + "/audit", own) == 404, "nothing shows any more whose it was"
    assert api.status("ada", "GET", one + "/audit", own) == 200


def test_a_letter_is_not_sent_outside_the_callers_scope(programs, sqlite, kafka, tmp_path):
    """A header names the original topic, so a producer of orders.dlq.v1 could otherwise write to payments."""
    own, payments = (kafka.create_topic(fresh_name(word)) for word in ("orders.v1", "payments"))
    api = Api(start(programs, tmp_path, sqlite, kafka={"brokers": [kafka.brokers]}, dead_letters={"ingest": False}))
    planted, good = (add_letter(sqlite, topic, payload=f'"for {topic}"', record_value=f'"for {topic}"'.encode(),
                                source_topic="orders.dlq.v1", source_partition=0, source_offset=offset)
                     for offset, topic in enumerate((payments, own)))
    retry = DLQ + "/messages/{id}/retry"
    answer = api.ask("olga", "POST", retry, planted)
    assert answer.status == 409 and "may not use its original topic" in answer.json()["error"]["message"]
    reported = api.ask("olga", "POST", DLQ + "/{topic}/retry-all", "orders.dlq.v1").json()
    assert (reported["retried"], reported["not_tried"]) == (1, 1)
    assert (letter(sqlite, planted)["status"], letter(sqlite, planted)["retry_count"]) == ("PENDING", 0)
    assert letter(sqlite, good)["status"] == "RESOLVED"
    assert api.status("ada", "POST", retry, planted) == 200
    assert [message.value() for message in kafka.read_topic(payments)] == [f'"for {payments}"'.encode()], "once, by ada"
    assert [message.value() for message in kafka.read_topic(own)] == [f'"for {own}"'.encode()]


def test_a_scope_is_changed_without_a_restart(programs, sqlite, tmp_path):
    path = tmp_path / "tokens.yaml"

    def write(topics):
        (tmp_path / "fresh").write_text(json.dumps([limited_token("olga", "viewer", topics)]))
        (tmp_path / "fresh").rename(path)

    write(["orders", "payments"])
    service = start(programs, tmp_path, sqlite, {"tokens_file": str(path), "tokens": []})
    letter_id = add_letter(sqlite, "payments")

    def sees():
        return service.get(f"{DLQ}/messages/{letter_id}", token("olga")).status == 200

    assert sees()
    write(["orders"])
    wait_for(lambda: not sees(), 30, "the scope to be narrowed")
    write([])
    service.process.wait_for_stderr("topics is empty")
    assert not sees(), "a mistake opens nothing"
    assert service.get(f"{DLQ}/orders", token("olga")).status == 200


def audit_lines(service):
    lines = [json.loads(line) for line in service.process.stderr.splitlines()]
    return [line for line in lines if line["event"] == "audit"]


def test_reads_are_audited_in_the_log_if_enabled(programs, store, tmp_path):
    letter_id = add_letter(store, "orders", payload='{"card": "4111"}')
    service = start(programs, tmp_path, store, {"audit_reads": True})
    path = f"{DLQ}/messages/{letter_id}"
    reads = [("vera", path), ("olga", path + "/raw"), ("ada", f"{DLQ}/orders")]
    for who, read in reads:
        page = get(service.base + read + ("?text=4111" if read.endswith("orders") else ""),
                   headers={"Authorization": f"Bearer {token(who)}", "X-Request-Id": f"read-by-{who}"})
        assert page.status == 200 and "4111" in page.text or read.endswith("/raw")
    order = {"idempotency_key": "order-0001", "symbol": "AAPL", "intent": "BUY", "qty": 10}
    posted = get(service.base + "/api/v1/orders", method="POST", body=json.dumps(order).encode(),
                 headers={"Authorization": f"Bearer {token('otto')}", "Idempotency-Key": "order-0001"})
    assert posted.status == 201
    assert service.get("/api/v1/orders/order-0001", token("vera")).status == 200
    for refused in (f"{DLQ}/messages/{UNKNOWN}", "/api/v1/orders/none"):
        assert service.get(refused, token("vera")).status == 404
    assert service.get(path).status == 401 and service.get("/metrics", token("vera")).status == 200
    lines = audit_lines(service)
    assert [(line["actor"], line["path"]) for line in lines] == [*reads, ("vera", "/api/v1/orders/order-0001")]
    assert [line["request_id"] for line in lines[:3]] == ["read-by-vera", "read-by-olga", "read-by-ada"]
    for line in lines:
        assert (line["level"], line["action"], line["method"], line["address"]) == ("info", "read", "GET", "127.0.0.1")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", line["ts"]) and line["request_id"]
    assert "4111" not in service.process.stderr and "token-of-" not in service.process.stderr


def test_reads_are_not_audited_otherwise(programs, sqlite, tmp_path):
    service = start(programs, tmp_path, sqlite)
    assert service.get(DLQ, token("vera")).status == 200
    assert audit_lines(service) == []
