"""Dead letters over HTTP and from the shell, on both stores. Every answer conforms to /openapi.json."""

import json
import re
from urllib.parse import quote

import pytest
from harness.dead_letters import add_letter, letter
from harness.openapi import Document
from harness.ports import free_port
from harness.service import start_with_tokens, token
from harness.waiting import wait_for
from harness.web import get

DLQ = "/api/v1/dlq"
LIST = DLQ + "/{topic}"
ALL = DLQ + "/{topic}/retry-all"
ONE = DLQ + "/messages/{id}"
UNKNOWN = "00000000-0000-4000-8000-000000000000"
BASIC_FIELDS = ["id", "original_topic", "error_message", "retry_count", "max_retries", "payload", "status", "created_at",
               "updated_at", "last_retry_at"]
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00")


class Api:
    """Sends requests with a token and validates each answer against the OpenAPI document."""

    def __init__(self, service):
        self.service = service
        self.document = Document(service.get("/openapi.json", token("vera")).json())

    def ask(self, method, template, value="", query="", who="otto", headers=None):
        path = re.sub(r"\{\w+\}", quote(value, safe=""), template) + (f"?{query}" if query else "")
        sent = ({"Authorization": f"Bearer {token(who)}"} if who else {}) | (headers or {})
        return self.document.check(method, template, get(self.service.base + path, headers=sent, method=method))


def error(page):
    reported = page.json()["error"]
    return page.status, reported["code"], reported["message"]


def left(api, method, template):
    operation = api.document.operation(method, template)["operationId"]
    return api.document.documented(method, template) - api.document.seen[operation]


@pytest.fixture
def api(programs, store, tmp_path):
    """A service without Kafka in its configuration."""
    return Api(start_with_tokens(programs, tmp_path, store.url))


def test_a_row_with_only_the_basic_columns_is_shown(api, store):
    letter_id = add_letter(store)
    page = api.ask("GET", LIST, "orders.events.v1", who="vera").json()
    assert list(page) == ["messages", "pagination"]
    (found,) = page["messages"]
    assert list(found)[:10] == BASIC_FIELDS
    assert found["id"] == letter_id and found["payload"] == {"order_id": "123"} and found["status"] == "PENDING"
    assert (found["retry_count"], found["max_retries"], found["last_retry_at"]) == (0, 3, None)
    assert TIME.fullmatch(found["created_at"]) and TIME.fullmatch(found["updated_at"])
    assert list(page["pagination"])[:4] == ["total_count", "page", "page_size", "has_next"]
    assert list(page["pagination"].values())[:4] == [1, 1, 20, False]
    shown = api.ask("GET", ONE, letter_id, who="vera").json()
    assert list(shown)[:10] == BASIC_FIELDS
    assert {name: shown[name] for name in found} == found


def test_a_retry_resolves_once(api, store):
    letter_id = add_letter(store)
    assert api.ask("POST", ONE + "/retry", letter_id).json() \
        == {"id": letter_id, "status": "RESOLVED", "message": "message retry initiated"}
    assert error(api.ask("POST", ONE + "/retry", letter_id)) \
        == (409, "SYS_DLQ_CONFLICT", "message is not retryable: status=RESOLVED, retry_count=1/3")
    assert error(api.ask("POST", ONE + "/retry", UNKNOWN)) \
        == (404, "SYS_DLQ_NOT_FOUND", f"dlq message not found: {UNKNOWN}")
    assert error(api.ask("POST", ONE + "/retry", "not-a-uuid")) \
        == (400, "SYS_DLQ_VALIDATION_ERROR", "invalid message id: not-a-uuid")
    assert api.ask("POST", ONE + "/retry", letter_id, who="vera").status == 403
    assert api.ask("POST", ONE + "/retry", letter_id, who=None).status == 401
    assert {line["actor"] for line in api.ask("GET", ONE + "/audit", letter_id).json()["audit"]} == {"otto"}
    assert left(api, "POST", ONE + "/retry") == {413, 415, 421, 431, 500, 503}


def test_retry_all_returns_the_count(api, store):
    ids = [add_letter(store, error_message=f"failure {number}") for number in range(3)]
    add_letter(store, status="DEAD", retry_count=3)
    answer = api.ask("POST", ALL, "orders.events.v1").json()
    for letter_id in ids:
        lines = api.ask("GET", ONE + "/audit", letter_id).json()["audit"]
        assert [(line["status_to"], line["actor"]) for line in lines] == [("RESOLVED", "otto")]
    assert (answer["retried"], answer["message"]) == (3, "3 messages retried in topic orders.events.v1")
    assert api.ask("POST", ALL, "orders.events.v1").json()["retried"] == 0
    assert api.ask("POST", ALL, "nobody/knows it").json()["retried"] == 0
    (topic,) = api.ask("GET", DLQ).json()["topics"]
    assert [topic[name] for name in ("topic", "source", "total", "pending", "retrying", "resolved", "dead")] \
        == ["orders.events.v1", "kafka", 4, 0, 0, 3, 1]


def test_marking_dead_and_deleting(api, store):
    letter_id = add_letter(store)
    assert api.ask("POST", ONE + "/dead", letter_id).json()["status"] == "DEAD"
    assert error(api.ask("POST", ONE + "/dead", letter_id)) \
        == (409, "SYS_DLQ_CONFLICT", "message cannot be marked as dead: status=DEAD, retry_count=0/3")
    assert letter(store, letter_id)["status"] == "DEAD"
    assert api.ask("DELETE", ONE, letter_id).status == 403, "an operator may not delete"
    assert api.ask("DELETE", ONE, letter_id, who="ada").json() \
        == {"success": True, "message": f"message {letter_id} deleted"}
    assert error(api.ask("DELETE", ONE, letter_id, who="ada"))[:2] == (404, "SYS_DLQ_NOT_FOUND")
    lines = api.ask("GET", ONE + "/audit", letter_id).json()["audit"]
    assert [(line["action"], line["actor"]) for line in lines] == [("dead", "otto"), ("deleted", "ada")]
    old = add_letter(store, created_at="2020-01-01T00:00:00.000Z", updated_at="2020-01-01T00:00:00.000Z")
    assert api.ask("DELETE", DLQ, query="status=PENDING&older_than_seconds=60", who="ada").json()["purged"] == 1
    (line,) = api.ask("GET", ONE + "/audit", old).json()["audit"]
    assert (line["action"], line["actor"]) == ("purged", "ada")


def test_pages_and_cursors_show_every_letter_once(api, store):
    ids = [add_letter(store, error_message=f"n {number}") for number in range(57)]
    by_page = [found["id"] for page in (1, 2, 3) for found in
               api.ask("GET", LIST, "orders.events.v1", f"page={page}&page_size=20").json()["messages"]]
    assert sorted(by_page) == sorted(ids)
    by_cursor, query = [], "page_size=10"
    while query:
        page = api.ask("GET", LIST, "orders.events.v1", query).json()
        assert page["pagination"]["total_count"] == 57
        by_cursor += [found["id"] for found in page["messages"]]
        following = page["pagination"]["next_cursor"]
        assert page["pagination"]["has_next"] == (following is not None)
        query = following and f"page_size=10&cursor={following}"
    assert by_cursor == by_page


def test_filters_and_hostile_texts(api, store):
    nasty = "'; DROP TABLE dlq_messages; -- <script>alert(1)</script> 100% _\\"
    letter_id = add_letter(store, nasty, nasty, json.dumps({"text": nasty}), error_class=nasty)
    add_letter(store)
    for query in (f"text={quote(nasty)}", f"error_class={quote(nasty)}", "status=PENDING&source=kafka", "text=SCRIPT",
                  "from=2020-01-01T00:00:00.000+00:00&until=2099-01-01T00:00:00Z"):
        page = api.ask("GET", LIST, nasty, query).json()
        assert [found["id"] for found in page["messages"]] == [letter_id], query
    for query in ("text=%25%25", "text=nothing", "status=DEAD", "source=lane:x", "key=k", "until=2020-01-01T00:00:00Z"):
        assert api.ask("GET", LIST, nasty, query).json()["pagination"]["total_count"] == 0, query
    for query, name in (("page=0", "page"), ("page_size=101", "page_size"), ("colour=red", "colour"), ("from=x", "from")):
        page = api.ask("GET", LIST, "t", query)
        assert error(page)[:2] == (400, "SYS_DLQ_VALIDATION_ERROR")
        assert page.json()["error"]["details"][0]["field"] == name
    assert api.ask("GET", LIST, "messages").json()["messages"] == []
    assert api.ask("GET", ONE + "/raw", letter_id).json()["topic"] is None


def test_a_records_timestamp_is_a_date_if_it_has_one(api, store):
    for millis, date in ((1_771_583_400_123, "2026-02-20T10:30:00.123+00:00"), (1_700_000_000_000_000, None)):
        letter_id = add_letter(store, record_timestamp_ms=millis, record_timestamp_type="created")
        raw = api.ask("GET", ONE + "/raw", letter_id).json()
        assert (raw["timestamp"], raw["timestamp_ms"]) == (date, millis)


def test_without_a_broker_nothing_is_published_or_lost(programs, store, tmp_path):
    away = f"127.0.0.1:{free_port()}"
    api = Api(start_with_tokens(programs, tmp_path, store.url, kafka={"brokers": [away]},
                                dead_letters={"replay_timeout_seconds": 1}))
    letter_id = add_letter(store)
    status, code, message = error(api.ask("POST", ONE + "/retry", letter_id))
    assert (status, code) == (500, "SYS_DLQ_INTERNAL_ERROR")
    assert "published" in message and "can be retried" in message
    shown = api.ask("GET", ONE, letter_id).json()
    assert shown["retryable"] and shown["status"] in ("PENDING", "RETRYING") and not shown["in_doubt"]
    assert api.service.get("/readyz").status == 200, "readiness does not depend on Kafka"
    api.ask("POST", ALL, "orders.events.v1")
    assert api.ask("GET", ONE, letter_id).json()["status"] != "RESOLVED"


def test_a_dry_run_says_where_messages_would_go_and_sends_none(programs, store, tmp_path):
    api = Api(start_with_tokens(programs, tmp_path, store.url, kafka={"brokers": [f"127.0.0.1:{free_port()}"],
                                                                      "replay_topics": ["orders.*"]}))
    ids = [add_letter(store), add_letter(store), add_letter(store, "secrets")]
    plan = api.ask("POST", ALL, "orders.events.v1", query="dry_run=true")
    assert (plan.status, plan.json()) == (200, {"dry_run": True, "matched": 2, "by_destination": [
        {"topic": "orders.events.v1", "count": 2, "refused": None}]})
    (refused,) = api.ask("POST", ALL, "secrets", query="dry_run=true").json()["by_destination"]
    assert (refused["topic"], refused["count"]) == ("secrets", 1) and "kafka.replay_topics" in refused["refused"]
    for letter_id in ids:
        shown = api.ask("GET", ONE, letter_id).json()
        assert (shown["status"], shown["retry_count"]) == ("PENDING", 0)
        assert api.ask("GET", ONE + "/audit", letter_id).json()["audit"] == []
    assert error(api.ask("POST", ALL, "secrets", query="dry_run=1"))[0] == 400
    assert api.ask("POST", ALL, "secrets", query="dry_run=true", who="vera").status == 403


def test_without_its_database(programs, postgres, proxy, tmp_path):
    api = Api(start_with_tokens(programs, tmp_path, postgres.server.url(postgres.database, port=proxy.port)))
    letter_id = add_letter(postgres)
    assert api.ask("GET", ONE, letter_id).status == 200
    proxy.refuse(True)
    proxy.cut()
    wait_for(lambda: api.service.get("/readyz").status == 503, 30, "/readyz to notice")
    for method, template, value in (("GET", DLQ, ""), ("GET", LIST, "t"), ("GET", ONE, letter_id),
                                    ("POST", ONE + "/dead", letter_id), ("POST", ALL, "t")):
        page = api.ask(method, template, value)
        assert error(page)[:2] == (503, "SYS_DLQ_INTERNAL_ERROR"), page.text
        assert int(page.headers["Retry-After"]) >= 0
    proxy.refuse(False)
    wait_for(lambda: api.ask("GET", ONE, letter_id).status == 200, 30, "the letter to be shown again")


def test_the_command_line_does_the_same(programs, store):
    def dlq(*words):
        return programs.run("dlq", *words, "--database", store.url)

    programs.run("migrate", "--database", store.url).ok()
    first, second = add_letter(store), add_letter(store, "mail", payload=None)
    rows = json.loads(dlq("list", "--json").ok().stdout)
    assert {row["id"] for row in rows} == {first, second} and list(rows[0])[:10] == BASIC_FIELDS
    assert json.loads(dlq("show", first).ok().stdout)["payload"] == {"order_id": "123"}
    assert json.loads(dlq("retry", first, "--json").ok().stdout)["status"] == "RESOLVED"
    assert "status=RESOLVED, retry_count=1/3" in dlq("retry", first).error_line(1)
    assert dlq("retry-all", "mail").ok().stdout == "1\n"
    assert {row["topic"]: row["resolved"] for row in json.loads(dlq("stats", "--json").ok().stdout)} \
        == {"orders.events.v1": 1, "mail": 1}
    assert first in dlq("delete", first).ok().stdout
    assert dlq("show", first).error_line(1)
