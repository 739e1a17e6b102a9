"""Hostile dead letters and requests get clear answers and change nothing else."""

import http.client
import json
import random
import re
from urllib.parse import quote

import pytest
from harness.dead_letters import add_letter, table
from harness.dlq_service import SUFFIX, DeadLetterService, Records, error, fresh_name, letters_by_offset
from harness.service import start_with_tokens, token
from harness.web import get

DLQ = "/api/v1/dlq"
DEADLINE_SECONDS = 40
LARGE_BODY_BYTES = 10 * 1024 * 1024
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # characters that control terminals
INVALID = (400, "SYS_DLQ_VALIDATION_ERROR")

SQL = "'; DROP TABLE dlq.dlq_messages; DELETE FROM dlq_messages; --"
HTML = "<script>alert(document.cookie)</script><img src=x onerror=alert(1)>&amp;\"'"
TEXTS = {"sql": SQL, "html": HTML, "quotes": "\"'`\\ %s ? $1 :name {0} ${x}", "like": "%_\\%",
         "traversal": "../../etc/passwd", "controls": "a\r\nSet-Cookie: x=1\r\n\r\n\x1b[2J\x7f",
         "right to left": "\u202e\ufeff\U0001f4a3", "c1": "\u009b2J\u0085\u009d0;title\u009c", "long": "x y" * 80}
BAD_IDS = {"word": "not-a-uuid", "empty braces": "{}", "braces": "{00000000-0000-4000-8000-000000000000}",
           "short": "0000000-0000-4000-8000-000000000000", "long": "00000000-0000-4000-8000-000000000000f",
           "a line break": "00000000-0000-4000-8000-000000000000\n", "not hex": "g0000000-0000-4000-8000-000000000000",
           "blank": " ", "a number": "1", "negative": "-1", "null": "null", "8 kB": "a" * 8000,
           "a null byte": "00000000-0000-4000-8000-000000000000\0", "wide digits": "\uff10" * 32} | TEXTS
# How clients may write a topic.
ODD_PATHS = ["%", "%zz", "%ff", "%c0%af", "%ed%a0%80", "%00", "a%00b", "%2e%2e%2f", "..%2f..%2fetc", "%250",
             ";jsessionid=1", "a%2fb%2fc", "*", "~", "%20", "%0d%0aX-A:%20b", "*.dlq.v1"]
ACTIONS = [("GET", ""), ("GET", "/raw"), ("GET", "/audit"), ("POST", "/retry"), ("POST", "/dead"), ("POST", "/revive"),
           ("DELETE", "")]


def incompressible(length):
    return random.Random(length).randbytes(length).hex()[:length]


class Target:
    """A service with some letters, and the state that must not change."""

    def __init__(self, programs, store, folder):
        self.store = store
        self.letter_id = add_letter(store)
        add_letter(store, "mail", status="DEAD", retry_count=3)
        self.service = start_with_tokens(programs, folder, store.url)
        self.before = self.everything()

    def everything(self):
        audit = table(self.store).replace("messages", "audit")
        return [self.store.query(f"SELECT * FROM {name} ORDER BY id") for name in (table(self.store), audit)]

    def ask(self, method, path, body=None, **headers):
        page = get(self.service.base + DLQ + path, method=method, body=body,
                   headers={"Authorization": f"Bearer {token('ada')}"} | headers)
        assert page.status != 0, f"{method} {path[:200]}: no answer: {page.text}"
        assert page.headers["Content-Type"].startswith("application/json"), "no browser shows it as a page"
        page.json()
        return page

    def check_unchanged(self):
        assert self.everything() == self.before
        assert self.service.process.alive() and self.service.get("/readyz").status == 200
        assert self.ask("GET", f"/messages/{self.letter_id}").status == 200


@pytest.fixture
def target(programs, store, tmp_path):
    target = Target(programs, store, tmp_path)
    yield target
    target.check_unchanged()


def test_invalid_ids(target):
    for name, text in BAD_IDS.items():
        for method, action in ACTIONS:
            page = target.ask(method, f"/messages/{quote(text, safe='')}{action}")
            refusal = (400, "BAD_REQUEST") if "\0" in text else INVALID  # not a path at all
            assert error(page)[:2] == refusal, (name, method, action, page.text)
            assert "\r" not in page.text and "\n" not in page.text.strip() and len(page.text) < 4000, page.text


def test_invalid_topics(target):
    """No letter has such a topic: a listing is empty or the name is refused. Nothing is retried."""
    for written in ODD_PATHS:
        page = target.ask("GET", f"/{written}")
        if page.status == 200:
            assert page.json()["messages"] == [] and page.json()["pagination"]["total_count"] == 0, written
        else:
            assert page.status in (400, 404), (written, page.text)
        page = target.ask("POST", f"/{written}/retry-all")
        assert page.status in (400, 404) or page.json()["retried"] == 0, (written, page.text)
        assert "X-A" not in page.headers


def test_overlong_names(target):
    """Random digits, which no database can compress into an index."""
    for length in (250, 256, 3000, 6000):
        written = incompressible(length)
        page = target.ask("GET", f"/{written}")
        assert (page.status, page.json()["messages"]) == (200, []), page.text
        page = target.ask("POST", f"/{written}/retry-all")
        if length > 255:
            assert error(page)[:2] == INVALID and len(page.text) < 1000, page.text
        else:
            assert page.json()["retried"] == 0, page.text
        for name in ("text", "error_class", "key"):
            page = target.ask("GET", f"/orders.events.v1?{name}={written}")
            assert page.status == 200 and page.json()["messages"] == [] or error(page)[:2] == INVALID, page.text


def test_topics_with_any_text(target):
    for name, text in TEXTS.items():
        written = quote(text, safe="")
        page = target.ask("GET", f"/{written}")
        assert (page.status, page.json()["messages"]) == (200, []), name
        answer = target.ask("POST", f"/{written}/retry-all")
        assert (answer.status, answer.json()["retried"]) == (200, 0), answer.text
        assert answer.json()["message"] == f"0 messages retried in topic {text}"


def test_query_parameters_with_any_text(target):
    for name in ("page", "page_size", "cursor", "status", "source", "from", "until"):
        for text in TEXTS.values():
            page = target.ask("GET", f"/orders.events.v1?{name}={quote(text, safe='')}")
            assert error(page)[:2] == INVALID and page.json()["error"]["details"][0]["field"] == name, page.text
    for name in ("error_class", "text", "key"):
        for text in TEXTS.values():
            page = target.ask("GET", f"/orders.events.v1?{name}={quote(text, safe='')}")
            assert (page.status, page.json()["messages"]) == (200, []), page.text
    for text in TEXTS.values():
        page = target.ask("GET", f"/orders.events.v1?{quote(text, safe='')}=1")
        assert error(page)[:2] == INVALID, page.text
    for number in ("0", "-1", "1e3", "0x10", "٣", "9" * 40, "1.0", "+1", "NaN", "18446744073709551617"):
        page = target.ask("GET", f"/orders.events.v1?page={quote(number)}&page_size={quote(number)}")
        assert error(page)[:2] == INVALID, (number, page.text)


def test_large_bodies(target):
    """No route here expects a body. A large one is refused while it is being sent, on every route."""
    body = b"x" * LARGE_BODY_BYTES
    host = re.sub("^http://", "", target.service.base)
    for method, path in (("POST", f"/messages/{target.letter_id}/retry"), ("POST", "/orders.events.v1/retry-all"),
                         ("POST", f"/messages/{target.letter_id}/dead"), ("DELETE", f"/messages/{target.letter_id}")):
        connection = http.client.HTTPConnection(host, timeout=DEADLINE_SECONDS)
        try:
            connection.putrequest(method, DLQ + path)
            connection.putheader("Authorization", f"Bearer {token('ada')}")
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders()
            try:
                connection.send(body)
            except (BrokenPipeError, ConnectionResetError):
                pass  # answered before the whole body had arrived
            answer = connection.getresponse()
            assert answer.status == 413 and json.loads(answer.read())["error"]["message"], (method, path)
        finally:
            connection.close()


def test_letters_with_any_text_in_every_field(programs, store, kafka, tmp_path):
    """Every field of a record: topic by header, error, class, trace, producer, header names and values, key, payload."""
    name = fresh_name("hostile")
    kafka.create_topic(name)
    dead = kafka.create_topic(name + SUFFIX)
    add_letter(store, "bystander")

    def record(text):
        value = text.encode()
        fields = ("error", "error_class", "stack_trace", "original_topic", "__connect.errors.connector.name",
                  "kafka_dlt-original-partition", "dead-letter-offset", "deliverd-replays", "plain")
        payload = json.dumps({"payload": text, text: [text]}).encode()
        return value, payload, [(name, value) for name in (*fields, text)]

    records = Records(kafka)
    records.produce(dead, [record(text) for text in TEXTS.values()])
    service = DeadLetterService(programs, tmp_path, store, kafka, name)
    service.wait_for_letters(store, dead, len(TEXTS), DEADLINE_SECONDS)
    letters = letters_by_offset(store, dead)
    for offset, text in enumerate(TEXTS.values()):
        letter_id = letters[offset]
        page = service.get(f"{DLQ}/messages/{letter_id}")
        assert page.headers["Content-Type"].startswith("application/json")
        shown = page.json()
        assert (shown["error_message"], shown["error_class"], shown["stack_trace"]) == (text, text, text)
        assert shown["payload"] == {"payload": text, text: [text]} and shown["original_topic"] == name
        assert shown["producer"] == f"kafka-connect: {text}"
        assert service.raw(letter_id) == (record(text), False)
        for query in (f"{field}={quote(text, safe='')}" for field in ("text", "error_class", "key")):
            found = service.get(f"{DLQ}/{dead}?{query}").json()["messages"]
            assert letter_id in [letter["id"] for letter in found], query
            assert query.startswith("text") or len(found) == 1, query
    listed = json.loads(programs.run("dlq", "list", "--json", "--config", service.config).ok().stdout)
    assert len(listed) == len(TEXTS) + 1
    human = programs.run("dlq", "list", "--config", service.config).ok().stdout
    assert not STEERING.search(human) and len(human.splitlines()) <= len(TEXTS) + 2, "one line per letter, no terminal codes"
    for offset, text in enumerate(TEXTS.values()):
        printed = programs.run("dlq", "show", letters[offset], "--config", service.config).ok().stdout
        assert not STEERING.search(printed) and json.loads(printed)["payload"] == {"payload": text, text: [text]}

    assert service.retry_all(dead).json()["retried"] == len(TEXTS)
    back = {message.key(): message for message in kafka.read_topic(name)}
    for text in TEXTS.values():
        key, value, _ = record(text)
        message = back[key]
        assert message.value() == value
        assert message.headers() == [("plain", key), (text, key), ("deliverd-replays", b"1")]
    untouched = store.query(f"SELECT status, retry_count FROM {table(store)} WHERE original_topic = 'bystander'")
    assert untouched == [{"status": "PENDING", "retry_count": 0}]


def test_letters_with_more_text_than_any_index_takes(programs, store, kafka, tmp_path):
    """The record keeps everything; shown and indexed fields are cut. The text does not compress."""
    name = fresh_name("long")
    kafka.create_topic(name)
    dead = kafka.create_topic(name + SUFFIX)
    text = incompressible(70_000).encode()
    fields = ("error", "error_class", "stack_trace", "original_topic", "__connect.errors.connector.name",
              "kafka_dlt-original-offset", "deliverd-replays", text[:9000].decode())
    key, value = text[:50_000], json.dumps({text.decode(): text.decode()}).encode()
    record = (key, value, [(field, text) for field in fields])
    Records(kafka).produce(dead, [record, (b"next", b"1", [])])
    service = DeadLetterService(programs, tmp_path, store, kafka, name)
    service.wait_for_letters(store, dead, 2, DEADLINE_SECONDS)
    letter_id = letters_by_offset(store, dead)[0]
    assert service.raw(letter_id) == (record, False)
    shown = service.letter(letter_id)
    assert shown["original_topic"] == name and shown["payload"] == json.loads(value)
    for field, most in (("error_message", 8192), ("error_class", 512), ("stack_trace", 65536), ("producer", 255)):
        assert most // 2 < len(shown[field].encode()) <= most, field
    found = service.get(f"{DLQ}/{dead}?error_class={quote(shown['error_class'])}").json()["messages"]
    assert [message["id"] for message in found] == [letter_id]
    assert "stored without" not in service.process.stderr, "the store refused nothing of it"
    assert service.retry_all(dead).json()["retried"] == 2
    message, _ = kafka.read_topic(name)
    assert (message.key(), message.value(), message.headers()) == (key, value, [(fields[-1], text), ("deliverd-replays", b"1")])
