"""docs/orders.md and docs/api.md: their commands work and print what they show."""

import json
import re

import pytest
from harness.documents import blocks, check, exchanges, is_as_shown, is_http_as_shown, split_http, text_of, type_in
from harness.ports import free_port
from harness.process import build_dir
from harness.receiver import Answer
from harness.service import Service, start_with_tokens, token
from harness.waiting import wait_for
from harness.web import get

ORDERS = "docs/orders.md"
METRIC_NAME = re.compile(r"\b(?:orders|outbox|lane|database|sink|dlq|deliverd)_[a-z_]+")


class Broker:
    """Answers as the page shows: a shown key gets its answer, any other key the refusal."""

    def __init__(self):
        self.request, *answers = [split_http(block) for block in blocks(ORDERS, "http")]
        self._refusal = answers.pop()
        self._answers = {json.loads(body)["idempotency_key"]: answer for answer in answers for body in [answer[2]]}

    def __call__(self, call):
        first, _, body = self._answers.get(call.key, self._refusal)
        return Answer(int(first.split()[1]), body.strip().encode())


@pytest.fixture
def service(programs, receiver, tmp_path):
    """`serve` with the page's first configuration, on a free port, with a broker that answers as the page shows."""
    port = free_port()
    config, swapped = re.subn(r'http://[^"]+(/\w+)"', rf'http://127.0.0.1:{receiver.port}\1"', blocks(ORDERS, "yaml")[0])
    assert swapped == 1
    path = tmp_path / "deliverd.yaml"
    path.write_text(config + f"server: {{ port: {port} }}\n")
    (tmp_path / "build").symlink_to(build_dir())
    receiver.answer_with(Broker())
    return Service(programs, path, port)


def test_every_example_of_the_orders_page(service, programs, receiver):
    for exchange in exchanges(ORDERS):
        check(exchange, service.base, programs)
    first, headers, body = Broker().request
    call = receiver.calls[0]
    assert first == f"POST {call.path} HTTP/1.1"
    for header in headers:
        name, _, value = header.partition(": ")
        assert is_as_shown(call.headers[name.lower()], value), call.headers
    assert is_as_shown(call.raw_body.decode(), body.strip()), call.raw_body
    assert receiver.times() == {"order-2026-0001": 1, "order-2026-0003": 1}


def test_a_wrong_example_is_found():
    """Without this, the test above would prove nothing."""
    answer = 'HTTP/1.1 201 Created\r\nLocation: /here\r\n\r\n{"id":1,"qty":1.50,"at":"now"}'
    assert is_http_as_shown(answer, 'HTTP/1.1 201 Created\nLocation: /…\n\n{"id": 1, "qty": 1.50,\n "at": "…"}\n')
    for wrong in ('HTTP/1.1 200 OK\n\n{"id":1,"qty":1.50,"at":"…"}', 'HTTP/1.1 201 Created\n\n{"id":1,"qty":1.5,"at":"…"}',
                  'HTTP/1.1 201 Created\n\n{"id":1,"at":"…"}', 'HTTP/1.1 201 Created\n\n{"id":…,"at":"…"}',
                  'HTTP/1.1 201 Created\nAge: 1\n\n{"id":1,"qty":1.50,"at":"…"}'):
        assert not is_http_as_shown(answer, wrong), wrong


def told_transitions():
    rows = re.findall(r"^\| (\S+) \| `(\w+)` \|[^|]+\| `(\w+)` \|$", text_of(ORDERS), re.MULTILINE)
    return {(None if source == "–" else source.strip("`"), to, reason) for source, to, reason in rows}


def test_the_state_diagram_matches_the_text():
    (diagram,) = blocks(ORDERS, "mermaid")
    drawn = {(None if source == "[*]" else source, to, reason)
             for source, to, reasons in re.findall(r"(\S+) --> (\w+): (.+)", diagram) for reason in reasons.split(", ")}
    assert drawn == told_transitions()
    assert len(drawn) == 8


def test_orders_change_state_as_documented(service, receiver, programs):
    """Retry, requeue, refusal and success. The other transitions belong to a stop and a crash."""
    post = exchanges(ORDERS)[0].command
    receiver.answer_with(lambda call: Broker()(call) if call.attempt > 1 else Answer(503, {}))
    type_in(post, service.base, programs)
    type_in(post.replace("order-2026-0001", "order-2026-0002"), service.base, programs)
    orders = [f"/api/v1/orders/order-2026-000{number}" for number in (1, 2)]
    wait_for(lambda: [service.get(path).json()["status"] for path in orders] == ["sent", "dead"], 20, "both to end")
    lines = [line for path in orders for line in service.get(path).json()["audit"]]
    gone = {(line["status_from"], line["status_to"], line["reason"]) for line in lines}
    assert gone <= told_transitions()
    assert len(gone) == 6


def test_the_settings_table_names_real_variables(programs, tmp_path):
    """Each variable overrides the setting in its row; without it, the documented default is in force."""
    rows = re.findall(r"^\| `(OUTBOX_\w+)` \| `([\w.]+)` \| (\d+) \|", text_of(ORDERS), re.MULTILINE)
    assert len(rows) == 5
    (tmp_path / "deliverd.yaml").write_text(blocks(ORDERS, "yaml")[0])

    def in_force(env=None):
        shown = programs.run("config", "show", env=env).ok().stdout
        return {words[0]: words[1:] for words in map(str.split, shown.splitlines()) if len(words) > 2}

    usual = in_force()
    for variable, setting, default in rows:
        assert usual[f"lanes.orders.{setting}"] == [default, "default"]
        assert in_force({variable: "3"})[f"lanes.orders.{setting}"] == ["3", variable]


def families(service):
    return set(re.findall(r"^# TYPE (\w+)", service.get("/metrics").text, re.MULTILINE))


def test_documented_metrics_exist_and_all_are_documented(service, programs):
    """The operations guide's table has every metric, and no page names one that does not exist."""
    check(exchanges(ORDERS)[0], service.base, programs)
    wait_for(lambda: service.total(r'^outbox_flush_total\{.*success') == 1, 20, "the order to be sent")
    wait_for(lambda: {"database_call_seconds", "lane_queue_depth"} <= families(service), 20, lambda: families(service))
    real = families(service)
    guide = text_of("docs/operations.md")
    reported = {name for row in re.findall(r"^\| `(\w+)\{?", guide, re.MULTILINE) for name in METRIC_NAME.findall(row)}
    assert real <= reported, "not in the table of docs/operations.md"
    for name in METRIC_NAME.findall("".join(blocks(ORDERS, "promql"))):
        assert name.removesuffix("_bucket") in real


def test_the_api_page_has_every_endpoint_with_its_role(programs, tmp_path):
    service = start_with_tokens(programs, tmp_path, f"sqlite:{tmp_path}/api.db")
    rows = re.findall(r"^\| `(GET|POST|DELETE) (/\S*)` \| (open|viewer|operator|admin)", text_of("docs/api.md"), re.MULTILINE)
    document = service.get("/openapi.json", token("vera")).json()
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert {(method, path) for method, path, _ in rows} == described

    def status(method, path, who):
        headers = {"Authorization": f"Bearer {token(who)}"} if who else None
        return get(service.base + path, headers=headers, method=method, body=b"" if method == "POST" else None).status

    for method, path, role in rows:
        assert (status(method, path, None) == 401) == (role != "open"), path
        assert (status(method, path, "vera") == 403) == (role in ("operator", "admin")), path
        assert (status(method, path, "otto") == 403) == (role == "admin"), path
        assert status(method, path, "ada") not in (401, 403), path
